"""Tests of training on synthetic measurements."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.problem import Problem
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.learning.tasks import training
from seqtune.predictor.learning.tasks.evaluation import evaluate_tasks
from seqtune.predictor.learning.tasks.examples import away_from, make_examples, make_teacher, vocabulary_of
from seqtune.predictor.sequence.numeric_codes import Codes
from seqtune.predictor.sequence.source_facts import RATIO_NAMES
from seqtune.predictor.training.progress import Epoch
from seqtune.predictor.translator.translator import Source, Translator
from tests.support.learning.short_training import DATA, QUICK, train
from tests.support.learning.translators import small_translator
from tests.support.synthetic import Data

pytestmark = pytest.mark.usefixtures("fake_kernel")


def _share(checkpoint: Checkpoint, where: Data = DATA) -> float:
    outcomes = evaluate_tasks(measured_tasks(where, held_out=True), checkpoint)
    return math.exp(float(np.mean([outcome.log_shares["seqtune", 0] for outcome in outcomes])))


def _weights(checkpoint: Checkpoint) -> torch.Tensor:
    return torch.cat([tensor.flatten().float() for tensor in checkpoint.network.state_dict().values()])


@pytest.mark.slow
def test_a_short_training_beats_the_untrained_model_on_held_out_problems() -> None:
    vocabulary = vocabulary_of(measured_tasks(DATA, held_out=False))
    untrained = Checkpoint.of_translator(small_translator(vocabulary, 32, hidden=64), vocabulary)
    reports: list[Epoch] = []
    trained, report = train(DATA, replace(QUICK, epochs=6, patience=6, extra=24, confidence=True), reports.append)
    assert _share(trained) > _share(untrained) + 0.1
    assert report["cases"] + report["validation_cases"] == 24
    assert report["examples"] == report["cases"] + 24
    assert len(reports) == len(report["history"]) == report["epochs"]
    assert reports[-1].loss < reports[0].loss
    assert reports[-1].best_epoch == report["best_epoch"]
    assert reports[report["best_epoch"] - 1].figures["share"] == pytest.approx(report["validation_share"])
    json.dumps(report)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path: Path) -> None:
    short = replace(QUICK, epochs=1)
    first, second, other = (train(DATA, options)[0] for options in (short, short, replace(short, seed=1)))
    assert torch.equal(_weights(first), _weights(second))
    assert not torch.equal(_weights(first), _weights(other))
    first.save(tmp_path / "kept")
    assert torch.equal(_weights(Checkpoint.load(tmp_path / "kept")), _weights(first))


@pytest.mark.parametrize(("count", "measured"), [(41, 24), (20, 13)])
def test_an_epoch_has_all_measured_problems_or_their_share_and_as_many_sampled_ones_as_fit(
        count: int, measured: int) -> None:
    tasks = measured_tasks(DATA, held_out=False)[:24]
    options = replace(QUICK, extra=30, examples=count)
    vocabulary = vocabulary_of(tasks)
    examples = make_examples(tasks, make_teacher(tasks, options), vocabulary, options, [])
    seen: list[bytes] = []

    class Listening(Translator):
        def scores_and_slowness(self, source: Source, *rest: Any, **named: Any) -> Any:
            seen.extend(_identity(codes.numpy()) for codes in source.codes)
            return super().scores_and_slowness(source, *rest, **named)

    training.fit(Listening.of(vocabulary, width=32, layers=1, heads=2, hidden=64), vocabulary, examples, [],
                 replace(options, epochs=2))
    of_measured = {_identity(example.source.codes) for example in examples.measured}
    for epoch in (seen[:count], seen[count:]):
        assert len(set(epoch)) == count
        assert len(of_measured & set(epoch)) == measured
    assert set(seen[:count]) != set(seen[count:])


@pytest.mark.parametrize(("shares", "kept"), [([0.9, 0.8], 3), ([0.8, 0.9], 2)])
def test_answers_to_validation_problems_decide_between_the_last_epoch_and_the_best(
        shares: list[float], kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, answers = iter([1.0, 3.0, 2.0]), iter(shares)
    monkeypatch.setattr(training, "validate", lambda *given: (next(scores), 0.0))
    monkeypatch.setattr(training, "answer_shares", lambda *given: {1: next(answers)})
    report = train(DATA, replace(QUICK, epochs=3, validation=0.3))[1]
    assert (report["best_epoch"], report["kept_epoch"]) == (2, kept)
    assert report["answer_shares"] == {"1": max(shares)}


def _identity(codes: Codes) -> bytes:
    return codes[:-len(RATIO_NAMES)].tobytes()  # without the ratios, whose rates are redrawn


def test_the_state_of_another_training_and_a_damaged_one_are_refused(tmp_path: Path) -> None:
    options = replace(QUICK, epochs=1, save_every=1, state=tmp_path)
    train(DATA, options)
    with pytest.raises(FormatError, match="other data, options or vocabulary"):
        train(DATA, replace(options, seed=5))
    (tmp_path / "state.safetensors").write_bytes(b"\x80\x04 no tensors")
    with pytest.raises(FormatError, match="damaged"):
        train(DATA, options)


def test_ctrl_c_after_the_last_epoch_keeps_the_trained_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(progress: Epoch) -> None:
        if progress.stage == "refitting":
            raise KeyboardInterrupt

    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    short = replace(QUICK, epochs=1, confidence=True)
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
    checkpoint, report = train(DATA, replace(QUICK, epochs=1, teacher=False))
    assert report["teacher_share"] is None
    assert 0 < _share(checkpoint) <= 1


def test_measured_problems_near_a_held_out_one_are_not_learned_from() -> None:
    tasks = measured_tasks(DATA, held_out=False)
    other = Problem.make("conv2d", **{**dict(tasks[0].problem), "layout": "NHWC"})
    assert away_from([other], tasks) == tasks, "another layout has other kernels"
    kept = away_from([Problem.make("conv2d", **{**dict(tasks[0].problem), "activation": "relu"})], tasks)
    assert 0 < len(kept) < len(tasks)
    assert tasks[0] not in kept


def test_data_without_training_problems_is_refused() -> None:
    with pytest.raises(MisuseError, match="nothing to learn from"):
        train(Data(DATA.frame[DATA.frame["held_out"]], DATA.devices), QUICK)


def test_a_judge_that_learns_anew_changes_nothing_else_and_goes_on_where_it_ended(tmp_path: Path) -> None:
    options = replace(QUICK, epochs=1, extra=8)
    before, after = (train(DATA, replace(options, judge_epochs=epochs))[0] for epochs in (0, 2))
    changed = {name for name in before.state if not np.array_equal(before.state[name], after.state[name])}
    assert changed
    assert all(name.startswith("judge.") for name in changed)

    def stop(progress: Epoch) -> None:
        if progress.epochs == 2:
            raise KeyboardInterrupt

    kept = replace(options, judge_epochs=2, state=tmp_path / "state", save_every=1)
    with pytest.raises(KeyboardInterrupt):
        train(DATA, kept, stop)
    seen: list[Epoch] = []
    resumed, _ = train(DATA, kept, seen.append)
    assert [step.epoch for step in seen if step.epochs == 2] == [2]
    assert torch.equal(_weights(resumed), _weights(after))
