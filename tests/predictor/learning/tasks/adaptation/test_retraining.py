"""Tests of retraining and of rehearsals on synthetic measurements."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.kernels.libraries.library import Library
from seqtune.kernels.libraries.table import IN_USE
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.similarity import near
from seqtune.kernels.say import silent
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.learning.tasks.adaptation.clock import Clock
from seqtune.predictor.learning.tasks.adaptation.plan import Selection
from seqtune.predictor.learning.tasks.adaptation.report import NEW, OLD
from seqtune.predictor.learning.tasks.adaptation.retraining import RETRAINING, retrain
from seqtune.predictor.learning.tasks.evaluation import evaluate_tasks
from seqtune.predictor.learning.tasks.examples import problems_of
from seqtune.predictor.training.progress import Epoch
from seqtune.tuner.measuring.deadline import Deadline
from tests.support.learning.progress import parted
from tests.support.learning.short_training import DATA, QUICK, train
from tests.support.synthetic import DIRECT, MIDDLE, NARROW, WIDE, Data, data, registered

pytestmark = pytest.mark.usefixtures("fake_kernel")

AGAIN = replace(RETRAINING, epochs=1, batch=16, sentences=4, extra=0, threads=1, trees=QUICK.trees, added=10)

@pytest.fixture(name="old", scope="module")
def _old() -> Checkpoint:
    """A checkpoint of DATA that learned for an epoch: no retraining changes it."""
    with registered():
        return train(DATA, replace(QUICK, epochs=1, validation=0.0))[0]


PRODUCT = Kernel("fake.product", "gemm", ("fake",), (Parameter("tile", (1, 2, 4)),), (), (("tile", 1),))


@pytest.mark.slow
def test_retraining_adapts_to_a_new_device_and_reports_before_and_after() -> None:
    options = replace(QUICK, epochs=2, validation=0.0)
    new = data(14, held_out=4, sampled=80, devices=(MIDDLE,), seed=3)
    new.frame["seconds"] = 1e-6 / new.frame["seconds"]  # slow configurations become fast: old records do not help
    old, _ = train(DATA, options)
    adapted, report = retrain(old, new, DATA, replace(RETRAINING, epochs=4, rate=2e-3, average=0.9, extra=10, batch=16,
                                                      sentences=4, threads=1, trees=QUICK.trees))
    first = next(row for row in report.evaluated if row.measured == 0)
    assert (first.device, first.records) == (MIDDLE.name, NEW)
    assert first.difference is not None
    assert first.difference > 0.1
    assert report.unchanged == (NARROW.name, WIDE.name)
    assert report.new_words > 0
    assert adapted.vocabulary.words[:len(old.vocabulary.words)] == old.vocabulary.words
    assert adapted.provenance["retrained_on"]
    assert json.loads(json.dumps(report.to_json())) == adapted.metrics


def records_of(problems: Sequence[Problem], held_out: Sequence[Problem] = (),
               twins: Mapping[Problem, Problem] | None = None, device: Device = MIDDLE) -> Data:
    """The rows of DATA's wide device for these problems, as if they were another device's; twins take their rows."""
    frame = DATA.frame[(DATA.frame["device"] == WIDE.name) & DATA.frame["problem"].isin([one.key for one in problems])]
    renamed = frame["problem"].replace({problem.key: twin.key for problem, twin in (twins or {}).items()})
    held = renamed.isin([problem.key for problem in held_out])
    return Data(frame.assign(held_out=held, problem=renamed, device=device.name), {device.name: device})


def near_twin(problem: Problem) -> Problem:
    """Another problem that is near."""
    twin = Problem.make(problem.type, **{**dict(problem), "k": problem.size("k") + 1})
    assert near(twin, problem)
    return twin


HELD, KNOWN = (problems_of(DATA, held_out=part) for part in (True, False))
FAR = [problem for problem in KNOWN if not any(near(problem, other) for other in HELD)]


@pytest.mark.filterwarnings("ignore:.*solved faster by a configuration that their search spaces no longer hold")
def test_all_of_a_users_problems_are_learned_from_though_the_old_records_hold_out_near_ones() -> None:
    """Every problem that the user tuned is one that the old records hold out, or a near twin of one."""
    twin = near_twin(HELD[0])
    new = records_of([*HELD[:2], FAR[0], FAR[1]], held_out=[FAR[0]], twins={HELD[0]: twin})
    selection = Selection.of(new, DATA, AGAIN)
    assert {measured.problem for measured in selection.fresh} == {twin, HELD[1], FAR[1]}
    assert selection.left_out == []
    assert {*HELD[:2]} <= {*selection.leaked[OLD]} <= {*HELD}
    assert not {*HELD[:2]} & {*selection.held_out}, "problems that are learned from are not used for evaluation"
    assert not any(near(problem, measured.problem) for problem in selection.held_out for measured in selection.fresh)
    alone = records_of([HELD[0]], twins={HELD[0]: twin})
    assert [measured.problem for measured in Selection.of(alone, DATA, AGAIN).fresh] == [twin]


@pytest.mark.filterwarnings("ignore:.*solved faster by a configuration that their search spaces no longer hold")
def test_held_out_problems_near_a_learned_one_are_not_used_for_evaluation_and_named(old: Checkpoint) -> None:
    twin = near_twin(HELD[0])
    new = records_of([HELD[0], FAR[0], FAR[1]], held_out=[FAR[0], FAR[1]], device=WIDE, twins={HELD[0]: twin})
    _, report = retrain(old, new, DATA, AGAIN)
    assert report.left_out == ()
    assert HELD[0].brief() in report.not_evaluated[OLD]
    rows = {row.records: row.problems for row in report.evaluated}
    assert rows == {NEW: 2, OLD: len(HELD) - len(report.not_evaluated[OLD])}
    assert any(HELD[0].brief() in note and "not used for evaluation" in note for note in report.notes)
    own = records_of([FAR[0], FAR[1]], held_out=[near_twin(FAR[0])], twins={FAR[1]: near_twin(FAR[0])})
    _, report = retrain(old, own, DATA, AGAIN)
    assert report.not_evaluated[NEW] == (near_twin(FAR[0]).brief(),)
    assert report.evaluated == ()
    assert report.notes[0].startswith(f"{MIDDLE.name}: all that was held out (1 problem (")


def test_a_retraining_without_held_out_problems_says_that_it_cannot_be_evaluated(old: Checkpoint) -> None:
    _, report = retrain(old, data(4, held_out=0, sampled=40, devices=(MIDDLE,), seed=3), DATA, AGAIN)
    assert report.unevaluated == (MIDDLE.name,)
    assert report.notes[0].startswith(f"{MIDDLE.name}: nothing was held out")
    assert "--hold-out" in report.notes[0]


def test_problems_without_a_usable_measurement_are_counted_and_named() -> None:
    new = data(5, held_out=2, sampled=40, devices=(MIDDLE,), seed=3)
    training = new.frame["problem"][~new.frame["held_out"]].unique()
    failed = new.frame["problem"] == training[0]
    new.frame["seconds"] = new.frame["seconds"].mask(failed)
    new.frame["status"] = new.frame["status"].mask(failed, "compile")
    selection = Selection.of(new, DATA, AGAIN)
    assert [problem.key for problem in selection.left_out] == [training[0]]
    assert len(selection.fresh) == len(training) - 1


@pytest.mark.parametrize("scratch", [False, True])
def test_a_held_out_problem_whose_kernels_no_training_problem_has_is_named_and_not_evaluated(
        old: Checkpoint, scratch: bool) -> None:
    IN_USE["fake"] = Library("fake", {DIRECT.name: "tests.support.synthetic:DIRECT",
                                      PRODUCT.name: f"{__name__}:PRODUCT"})
    product, new = Problem.make("gemm", m=64, n=64, k=64), data(6, held_out=2, sampled=40, devices=(MIDDLE,), seed=3)
    space = SearchSpace(PRODUCT, product, MIDDLE)
    rows = [{**new.frame.iloc[0], "problem": product.key, "kernel": PRODUCT.name, "configuration": space[row].key,
             "seconds": 1e-3 * (row + 1), "held_out": True} for row in range(len(space))]
    new.frame = pd.concat([new.frame, pd.DataFrame(rows)], ignore_index=True)
    _, report = retrain(old, new, DATA, AGAIN, scratch=scratch)
    assert report.unanswered == (product.brief(),)
    assert {(row.records, row.problems, row.scratch is None) for row in report.evaluated} == {(NEW, 2, not scratch)}
    assert any("not evaluated: 1 problem" in note for note in report.notes)


@pytest.mark.filterwarnings("ignore:.*solved faster by a configuration that their search spaces no longer hold")
def test_what_the_new_records_hold_out_is_not_rehearsed_and_no_other_device_changes(old: Checkpoint) -> None:
    new = records_of([FAR[0], FAR[1], FAR[2]], held_out=[FAR[0]])
    reports: list[Epoch] = []
    before = [old.propose([measured.task], 5) for measured in measured_tasks(DATA, held_out=True)]
    adapted, report = retrain(old, new, DATA, replace(AGAIN, rehearsed=99), parted(reports.append))
    assert (report.new_problems, report.new_cases) == (2, 2)
    assert report.old_cases == 2 * (len(KNOWN) - 1), "nor is rehearsed what the new ones hold out"
    assert report.unchanged == tuple(sorted(DATA.devices))
    assert not any(row.records == OLD for row in report.evaluated)
    after = [adapted.propose([measured.task], 5) for measured in measured_tasks(DATA, held_out=True)]
    assert after == before, "no answer for an old device changes, not in the last digit"


def test_an_old_device_with_new_records_is_evaluated_before_and_after_and_starts_from_its_own_layer(
        old: Checkpoint) -> None:
    first, report = retrain(old, data(6, held_out=2, sampled=40, devices=(WIDE,), seed=3), DATA, AGAIN)
    outcomes = evaluate_tasks(measured_tasks(DATA, held_out=True), old)
    logs = [outcome.log_shares["seqtune", 0] for outcome in outcomes if outcome.device == WIDE.name]
    assert not report.not_evaluated[OLD]
    rows = {row.measured: row for row in report.evaluated if row.records == OLD}
    assert {row.device for row in rows.values()} == {WIDE.name}
    assert rows[0].before == pytest.approx(math.exp(np.mean(logs)))
    assert rows[0].problems == len(logs)
    assert report.unchanged == (NARROW.name,)
    both, _ = retrain(first, data(6, held_out=2, sampled=40, devices=(MIDDLE,), seed=3), DATA, AGAIN)
    assert both.layers[1:] == (first, old)
    again, _ = retrain(both, data(6, held_out=2, sampled=40, devices=(WIDE,), seed=4), DATA, AGAIN)
    assert [layer.retrained_for for layer in again.layers] == [{WIDE.key}, {MIDDLE.key}, set()]
    trees = [len(layer.ranker.forests[DIRECT.name][0].roots) for layer in (old, first, both, again) if layer.ranker]
    assert [count - trees[0] for count in trees] == [0, AGAIN.added, AGAIN.added, 2 * AGAIN.added]


def test_a_retraining_ends_with_its_time_and_says_so(old: Checkpoint) -> None:
    new = data(6, held_out=2, sampled=40, devices=(MIDDLE,), seed=3)
    adapted, report = retrain(old, new, DATA, replace(AGAIN, minutes=1e-9, extra=10))
    assert report.out_of_time
    assert (report.epochs, report.old_cases) == (0, 1), "examples of the old records are no use without an epoch"
    assert any(note.startswith(f"none of {AGAIN.epochs} epochs fitted into the time, so the translator is")
               for note in report.notes)
    assert old.ranker is not None
    assert adapted.ranker is not None
    (before,), (after,) = old.ranker.forests[DIRECT.name], adapted.ranker.forests[DIRECT.name]
    assert len(after.roots) == len(before.roots) + 1, "the network learned nothing, the trees did, a little"


def test_a_promised_time_that_ends_before_the_training_is_refused_in_one_line(old: Checkpoint) -> None:
    new = data(6, held_out=2, sampled=40, devices=(MIDDLE,), seed=3)
    for deadline in (Deadline(1e-9), Deadline(1e-3, lambda: 0.0)):  # over, or too short for the trees
        with pytest.raises(SeqtuneError, match=f"the budget of {deadline.seconds:g} s ends before the training begins, "
                                               r"so nothing was written; after .* s of preparation, this machine seems "
                                               r"to need about --minutes [0-9.]+ \(4.5 by default\)"):
            retrain(old, new, DATA, AGAIN, deadline=deadline)


def test_each_part_of_a_retraining_ends_with_its_share_of_the_time(
        old: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clock, "check", lambda *given: None)  # which reads the deadline once a task
    new = data(6, held_out=2, sampled=40, devices=(MIDDLE,), seed=3)
    clock = itertools.count(0.0, 1.0)
    adapted, _ = retrain(old, new, DATA, AGAIN, deadline=Deadline(16.0, lambda: next(clock)))
    assert old.ranker is not None
    assert adapted.ranker is not None
    (before,), (after,) = old.ranker.forests[DIRECT.name], adapted.ranker.forests[DIRECT.name]
    assert 1 < len(after.roots) - len(before.roots) < AGAIN.added, "the clock moves by a second for each tree"


def test_every_step_is_said_and_an_interrupt_in_the_last_evaluation_loses_nothing_that_was_learned(
        old: Checkpoint) -> None:
    new = data(6, held_out=2, sampled=40, devices=(MIDDLE,), seed=3)
    steps: list[str] = []

    def stop(step: str) -> None:
        steps.append(step)
        if step.startswith("evaluating the new checkpoint"):
            raise KeyboardInterrupt

    adapted, report = retrain(old, new, DATA, AGAIN, parted(silent, stop))
    assert [step.split()[0] for step in dict.fromkeys(steps)] == [
        "choosing", "evaluating", *["growing"] * (len(set(steps)) - 4), "choosing", "evaluating"]
    assert (report.interrupted, report.epochs, report.evaluated) == (True, 1, ())
    assert adapted.fits([DIRECT])
