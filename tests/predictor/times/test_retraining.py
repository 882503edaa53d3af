"""Tests of retraining and of rehearsals on synthetic measurements."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import MisuseError
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.similarity import near
from seqtune.predictor.times.adaptation.rehearsal import Rehearsal
from seqtune.predictor.times.adaptation.retraining import RETRAINING, retrain
from seqtune.predictor.times.evaluation import judge
from seqtune.predictor.times.training import train
from seqtune.predictor.training.loop import Progress
from tests.support.learning.short_training import DATA, QUICK
from tests.support.synthetic import DIRECT, MIDDLE, NARROW, WIDE, Data, data

pytestmark = pytest.mark.usefixtures("fake_kernel")

AGAIN = replace(RETRAINING, epochs=1, batch=16, sentences=4, extra=0, threads=1, trees=QUICK.trees, added=10)


@pytest.mark.slow
def test_retraining_adapts_to_a_new_device_and_reports_before_and_after() -> None:
    options = replace(QUICK, epochs=25, validation=0.0)
    new = data(14, held_out=4, sampled=80, devices=(MIDDLE,), seed=3)
    new.frame["seconds"] = 1e-6 / new.frame["seconds"]  # slow configurations become fast: old records do not help
    old, _ = train(DATA, options)
    adapted, report = retrain(old, new, DATA, replace(RETRAINING, epochs=40, rate=2e-3, average=0.9, extra=20, batch=16,
                                                      sentences=4, threads=1, trees=QUICK.trees))
    before, after = (report["new"][name][MIDDLE.name]["0"] for name in ("before", "after"))
    assert after > before + 0.1
    assert report["unchanged"] == [NARROW.name, WIDE.name]
    assert report["new_words"] > 0
    assert adapted.vocabulary.words[:len(old.vocabulary.words)] == old.vocabulary.words
    assert adapted.provenance["retrained_on"]
    json.dumps(report)


def test_what_the_old_records_hold_out_is_not_learned_from_nor_are_near_twins() -> None:
    held, known = (list({measured.problem: None for measured in measured_tasks(DATA, held_out=part)})
                   for part in (True, False))
    far = [problem for problem in known if not any(near(problem, other) for other in held)]
    twin = Problem.make("conv2d", **{**dict(held[0]), "k": held[0].size("k") + 1})
    assert near(twin, held[0])
    used = [far[0], far[1], far[2], held[0], held[1]]
    frame = DATA.frame[(DATA.frame["device"] == WIDE.name) & DATA.frame["problem"].isin([one.key for one in used])]
    renamed = frame["problem"].replace(held[0].key, twin.key)
    new = Data(frame.assign(held_out=renamed == far[0].key, problem=renamed, device=MIDDLE.name), {MIDDLE.name: MIDDLE})
    old, _ = train(DATA, replace(QUICK, epochs=1, validation=0.0))
    reports: list[Progress] = []
    before = [old.propose([measured.task], 5) for measured in measured_tasks(DATA, held_out=True)]
    with pytest.warns(UserWarning, match="solved faster by a configuration that their search spaces no longer hold"):
        adapted, report = retrain(old, new, DATA, replace(AGAIN, rehearsed=99), reports.append)
    assert (report["left_out"], report["new_problems"], report["new_cases"]) == (2, 2, 2)
    assert report["old_cases"] == 2 * (len(known) - 1), "nor is rehearsed what the new ones hold out"
    assert (report["old"], report["unchanged"]) == ({"before": {}, "after": {}}, sorted(DATA.devices))
    after = [adapted.propose([measured.task], 5) for measured in measured_tasks(DATA, held_out=True)]
    assert after == before, "no answer for an old device changes, not in the last digit"
    with pytest.raises(MisuseError, match=r"all 2 training problems .* held out"):
        retrain(old, Data(new.frame[new.frame["problem"].isin([twin.key, held[1].key])], new.devices), DATA, AGAIN)


def test_an_old_device_with_new_records_is_judged_before_and_after_and_starts_from_its_own_layer() -> None:
    old, _ = train(DATA, replace(QUICK, epochs=1, validation=0.0))
    first, report = retrain(old, data(6, held_out=2, sampled=40, devices=(WIDE,), seed=3), DATA, AGAIN)
    logs = [outcome.log_shares["seqtune", 0] for outcome in judge(DATA, old) if outcome.device == WIDE.name]
    assert report["old"]["before"].keys() == report["old"]["after"].keys() == {WIDE.name}
    assert report["old"]["before"][WIDE.name]["0"] == pytest.approx(math.exp(np.mean(logs)))
    assert report["unchanged"] == [NARROW.name]
    both, _ = retrain(first, data(6, held_out=2, sampled=40, devices=(MIDDLE,), seed=3), DATA, AGAIN)
    assert both.layers[1:] == (first, old)
    again, _ = retrain(both, data(6, held_out=2, sampled=40, devices=(WIDE,), seed=4), DATA, AGAIN)
    assert [layer.retrained_for for layer in again.layers] == [{WIDE.key}, {MIDDLE.key}, set()]
    trees = [len(layer.ranker.forests[DIRECT.name][0].roots) for layer in (old, first, both, again) if layer.ranker]
    assert [count - trees[0] for count in trees] == [0, AGAIN.added, AGAIN.added, 2 * AGAIN.added]


def test_retraining_is_shown_beside_training_from_scratch() -> None:
    new = data(8, held_out=2, sampled=60, devices=(MIDDLE,), seed=3)
    old, _ = train(DATA, replace(QUICK, epochs=1, validation=0.0))
    _, report = retrain(old, new, DATA, AGAIN, scratch=True)
    assert set(report["new"]) == {"before", "after", "scratch"}
    assert set(report["old"]) == {"before", "after"}


def test_a_retraining_ends_with_its_time_and_says_so() -> None:
    new = data(6, held_out=2, sampled=40, devices=(MIDDLE,), seed=3)
    old, _ = train(DATA, replace(QUICK, epochs=1, validation=0.0))
    adapted, report = retrain(old, new, DATA, replace(AGAIN, minutes=1e-9))
    assert report["out_of_time"]
    assert report["epochs"] == 0
    assert old.ranker is not None
    assert adapted.ranker is not None
    (before,), (after,) = old.ranker.forests[DIRECT.name], adapted.ranker.forests[DIRECT.name]
    assert len(after.roots) == len(before.roots) + AGAIN.added, "the network learned nothing, the trees did"


def test_a_rehearsal_has_the_same_number_of_problems_of_every_device() -> None:
    drawn = Rehearsal.drawn(DATA, 3, held_out=False, seed=0)
    assert drawn.frame.groupby("device")["problem"].nunique().to_dict() == dict.fromkeys(DATA.devices, 3)
    assert len(drawn.tasks()) == 3 * len(DATA.devices)
    avoided = {(measured.problem.key, WIDE.name) for measured in drawn.tasks()}
    again = Rehearsal.drawn(DATA, 3, held_out=False, seed=0, leave_out=avoided)
    assert not avoided & set(again.frame[["problem", "device"]].itertuples(index=False, name=None))
