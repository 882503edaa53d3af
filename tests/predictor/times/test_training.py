"""Tests of training and retraining on synthetic measurements."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.similarity import near
from seqtune.predictor.sequence.source_facts import RATIO_NAMES
from seqtune.predictor.sequence.vocabulary import Sentence
from seqtune.predictor.times import training
from seqtune.predictor.times.adaptation.rehearsal import Rehearsal
from seqtune.predictor.times.adaptation.retraining import RETRAINING, retrain
from seqtune.predictor.times.checkpoint import Checkpoint
from seqtune.predictor.times.evaluation import judge
from seqtune.predictor.times.loss import sentence_loss
from seqtune.predictor.times.targets import TargetSentences
from seqtune.predictor.times.training import train
from seqtune.predictor.times.training_examples import make_examples, make_teacher, vocabulary_of
from seqtune.predictor.times.training_options import TrainingOptions
from seqtune.predictor.times.translator import Translator
from seqtune.predictor.training.loop import Progress
from seqtune.predictor.training.schedule import schedule
from seqtune.predictor.trees.cost_trees import TreesOptions
from tests.support.synthetic import DIRECT, MIDDLE, NARROW, WIDE, Data, data

pytestmark = pytest.mark.usefixtures("fake_kernel")

DATA = data(16, held_out=4, sampled=80)
QUICK = TrainingOptions(epochs=6, batch=16, sentences=4, rate=3e-3, average=0.9, extra=0, width=32, layers=1, heads=2,
                        hidden=64, validation=0.2, threads=1, save_every=3,
                        trees=TreesOptions(rounds=60, models=1))
AGAIN = replace(RETRAINING, epochs=1, batch=16, sentences=4, extra=0, threads=1, trees=QUICK.trees, added=10)


def _share(checkpoint: Checkpoint, where: Data = DATA) -> float:
    return math.exp(float(np.mean([verdict.log_shares["seqtune", 0] for verdict in judge(where, checkpoint)])))


def _weights(checkpoint: Checkpoint) -> torch.Tensor:
    return torch.cat([tensor.flatten().float() for tensor in checkpoint.model.state_dict().values()])


@pytest.mark.slow
def test_a_short_training_beats_the_untrained_model_on_held_out_problems() -> None:
    vocabulary = vocabulary_of(measured_tasks(DATA, held_out=False))
    torch.manual_seed(0)
    model = Translator.of(vocabulary, width=32, layers=1, heads=2, hidden=64)
    untrained = Checkpoint.of_model(model, vocabulary)
    reports: list[Progress] = []
    trained, report = train(DATA, replace(QUICK, epochs=40, patience=40, extra=60), reports.append)
    assert _share(trained) > _share(untrained) + 0.1
    assert report["cases"] + report["validation_cases"] == 24
    assert report["lessons"] == report["cases"] + 60
    assert len(reports) == len(report["history"]) == report["epochs"]
    assert reports[-1].loss < reports[0].loss
    assert reports[-1].best_epoch == report["best_epoch"]
    assert reports[report["best_epoch"] - 1].figures["share"] == pytest.approx(report["validation_share"])
    json.dumps(report)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path: Path) -> None:
    first, second = train(DATA, QUICK)[0], train(DATA, QUICK)[0]
    assert torch.equal(_weights(first), _weights(second))
    assert not torch.equal(_weights(first), _weights(train(DATA, replace(QUICK, seed=1))[0]))
    first.save(tmp_path / "kept")
    assert torch.equal(_weights(Checkpoint.load(tmp_path / "kept")), _weights(first))


@pytest.mark.parametrize(("lessons", "measured"), [(41, 24), (20, 13)])
def test_an_epoch_has_all_measured_problems_or_their_share_and_as_many_sampled_ones_as_fit(
        lessons: int, measured: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = measured_tasks(DATA, held_out=False)[:24]
    options = replace(QUICK, extra=30, lessons=lessons)
    vocabulary = vocabulary_of(tasks)
    examples = make_examples(tasks, make_teacher(tasks, options), vocabulary, options, [])
    seen: list[bytes] = []

    def listening(model: Translator, sources: Sequence[Sentence], targets: TargetSentences, *rest: Any) -> torch.Tensor:
        seen.extend(_identity(source) for source in sources)
        return sentence_loss(model, sources, targets, *rest)

    monkeypatch.setattr(training, "sentence_loss", listening)
    training.fit(Translator.of(vocabulary, width=32, layers=1, heads=2, hidden=64), vocabulary, examples, [],
                 replace(options, epochs=2))
    of_measured = {_identity(example.source) for example in examples if not example.sampled}
    for epoch in (seen[:lessons], seen[lessons:]):
        assert len(set(epoch)) == lessons
        assert len(of_measured & set(epoch)) == measured
    assert set(seen[:lessons]) != set(seen[lessons:])


@pytest.mark.parametrize(("shares", "kept"), [([0.9, 0.8], 3), ([0.8, 0.9], 2), ([0.9, 0.9], 3)])
def test_answers_to_validation_problems_decide_between_the_last_epoch_and_the_best(
        shares: list[float], kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, answers = iter([1.0, 3.0, 2.0]), iter(shares)
    monkeypatch.setattr(training, "validate", lambda *given: (next(scores), 0.0))
    monkeypatch.setattr(training, "answer_shares", lambda *given: {1: next(answers)})
    report = train(DATA, replace(QUICK, epochs=3, validation=0.3, confidence=False))[1]
    assert (report["best_epoch"], report["kept_epoch"]) == (2, kept)
    assert report["answer_shares"] == {"1": max(shares)}


def test_shares_of_answers_grow_with_the_proposals_that_count() -> None:
    judged = [measured.measured_only() for measured in measured_tasks(DATA, held_out=True)]
    shares = training.answer_shares(train(DATA, QUICK)[0], judged)
    assert 0 < shares[1] <= shares[3] <= shares[5] <= 1


def _identity(source: Sentence) -> bytes:
    return source.codes[:-len(RATIO_NAMES)].tobytes()  # without the ratios, whose rates are redrawn


def test_what_is_held_to_an_anchor_is_learned_already_where_the_translator_is_the_anchor() -> None:
    tasks = measured_tasks(DATA, held_out=False)[:6]
    vocabulary = vocabulary_of(tasks)
    examples = make_examples(tasks, None, vocabulary, QUICK, [])
    model = Translator.of(vocabulary, width=32, layers=1, heads=2, hidden=64).eval()
    generator = np.random.default_rng(0)
    targets = TargetSentences.joined([example.tree.sample(generator, 2, 0.0) for example in examples])
    sources = [example.source for example in examples]

    def loss(held: float) -> float:
        return float(sentence_loss(model, sources, targets, model, np.full(2 * len(examples), held)).detach())

    assert loss(1.0) == pytest.approx(0.0, abs=1e-5)
    assert 0.001 < loss(0.5) < loss(0.0) == pytest.approx(
        float(sentence_loss(model, sources, targets).detach()))


class _Stop(Exception):
    pass


def test_a_resumed_training_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.epoch == 4:
            raise _Stop

    options = replace(QUICK, state=tmp_path)
    with pytest.raises(_Stop):
        train(DATA, options, stop)
    reports: list[Progress] = []
    resumed, report = train(DATA, options, reports.append)
    assert reports[0].epoch == 4, "it goes on after the state saved at 3"
    plain, plain_report = train(DATA, QUICK)
    assert torch.equal(_weights(resumed), _weights(plain))
    assert report["history"] == plain_report["history"]
    assert str(tmp_path) not in json.dumps(resumed.provenance), "where it was kept is nobody's business"


def test_the_state_of_another_training_and_a_damaged_one_are_refused(tmp_path: Path) -> None:
    train(DATA, replace(QUICK, epochs=3, state=tmp_path))
    with pytest.raises(FormatError, match="other data, options or vocabulary"):
        train(DATA, replace(QUICK, epochs=3, seed=5, state=tmp_path))
    (tmp_path / "state.safetensors").write_bytes(b"\x80\x04 no tensors")
    with pytest.raises(FormatError, match="damaged"):
        train(DATA, replace(QUICK, epochs=3, state=tmp_path))


def test_ctrl_c_keeps_the_best_so_far() -> None:
    def stop(progress: Progress) -> None:
        if progress.epoch == 3:
            raise KeyboardInterrupt

    checkpoint, report = train(DATA, QUICK, stop)
    assert report["interrupted"]
    assert report["epochs"] == 3
    assert 0 < _share(checkpoint) <= 1


def test_ctrl_c_after_the_last_epoch_keeps_the_trained_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(progress: Progress) -> None:
        if progress.stage == "refitting":
            raise KeyboardInterrupt

    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    short = replace(QUICK, epochs=2)
    whole, _ = train(DATA, short)
    refitting, report = train(DATA, replace(short, refit=True), stop)
    assert report["interrupted"]
    monkeypatch.setattr(training, "fit_confidence", interrupted)
    completing, _ = train(DATA, short)
    assert completing.metrics["interrupted"]
    for checkpoint in (refitting, completing):
        assert torch.equal(_weights(checkpoint), _weights(whole))
        assert checkpoint.ranker is not None


def test_without_a_teacher_only_measured_rows_are_learned_from() -> None:
    tasks = measured_tasks(DATA, held_out=False)
    examples = make_examples(tasks, None, vocabulary_of(tasks), replace(QUICK, extra=50), [])
    assert len(examples) == len(tasks)
    checkpoint, report = train(DATA, replace(QUICK, teacher=False))
    assert report["teacher_share"] is None
    assert 0 < _share(checkpoint) <= 1


def test_refitting_uses_every_training_problem() -> None:
    reports: list[Progress] = []
    checkpoint, report = train(DATA, replace(QUICK, epochs=3, refit=True), reports.append)
    assert [progress.stage for progress in reports].count("refitting") == report["kept_epoch"]
    assert 0 < _share(checkpoint) <= 1


def test_the_rate_warms_up_and_then_falls() -> None:
    rates = [schedule(done, 0.1) for done in np.linspace(0, 1, 50)]
    peak = int(np.argmax(rates))
    assert rates[0] < 0.05
    assert 4 <= peak <= 6
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert rates[-1] == pytest.approx(0.02)


def test_data_without_training_problems_is_refused() -> None:
    with pytest.raises(MisuseError, match="nothing to learn from"):
        train(Data(DATA.frame[DATA.frame["held_out"]], DATA.devices), QUICK)


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
    assert set(report["old"]["after"]) == {WIDE.name, NARROW.name}
    for name in (WIDE.name, NARROW.name):  # 0.81 to 1 over seeds; without a rehearsal the old records are forgotten
        assert report["old"]["after"][name]["0"] > 0.6 * report["old"]["before"][name]["0"]
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
    with pytest.warns(UserWarning, match="solved faster by a configuration that their search spaces no longer hold"):
        _, report = retrain(old, new, DATA, replace(AGAIN, rehearsed=99, judged=99), reports.append)
    assert (report["left_out"], report["new_problems"], report["new_cases"]) == (2, 2, 2)
    assert report["old_cases"] == 2 * (len(known) - 1), "nor is rehearsed what the new ones hold out"
    for name in DATA.devices:
        logs = [outcome.log_shares["seqtune", 0] for outcome in judge(DATA, old) if outcome.device == name]
        assert report["old"]["before"][name]["0"] == pytest.approx(math.exp(np.mean(logs)))
    with pytest.raises(MisuseError, match=r"all 2 training problems .* held out"):
        retrain(old, Data(new.frame[new.frame["problem"].isin([twin.key, held[1].key])], new.devices), DATA, AGAIN)


def test_a_training_from_scratch_leaves_out_the_same_problems() -> None:
    known = list({measured.problem: None for measured in measured_tasks(DATA, held_out=False)})
    _, report = train(DATA, replace(QUICK, epochs=1, validation=0.0), leave_out=known[:3])
    assert report["problems"] == len(known) - 3


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
