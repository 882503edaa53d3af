"""Tests of the Trainer that all networks share: a line is fitted to four points."""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.say import silent
from seqtune.predictor.training.options import TrainingOptions
from seqtune.predictor.training.progress import Epoch
from seqtune.predictor.training.state import saved_epoch
from seqtune.predictor.training.trainer import Course, fit
from seqtune.tuner.stop_request import interrupted_by_sigterm
from tests.support.learning.progress import parted

POINTS = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
Options = partial(TrainingOptions, epochs=6, rate=0.1, warm_up=0.1, average=0.5, threads=1, save_every=2)


def line() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(1, 1)


def loss(model: nn.Linear, points: Tensor) -> Tensor:
    mean: Tensor = (model(points) - 2 * points).square().mean()
    return mean


def batches(generator: np.random.Generator) -> Sequence[Tensor]:
    return [POINTS[part] for part in np.array_split(generator.permutation(len(POINTS)), 2)]


COURSE = Course(loss, batches, 2)


def weights(model: nn.Linear) -> list[float]:
    return nn.utils.parameters_to_vector(model.parameters()).tolist()


def test_the_loss_falls_and_the_latest_average_is_kept_without_a_verdict() -> None:
    reports: list[Epoch] = []
    state = fit(line(), COURSE, Options(epochs=40), progress=parted(reports.append))
    assert reports[-1].loss < reports[0].loss / 10
    assert state.best_epoch == state.epoch == 40
    assert weights(state.kept) == weights(state.average)
    assert reports[-1].text.startswith("training: epoch 40/40, loss ")
    assert "to epoch" not in reports[0].text + reports[-1].text
    assert reports[9].left
    assert reports[9].text.endswith(f"{reports[9].seconds:.0f} s, about {reports[9].left:.0f} s to epoch 40")
    assert reports[0].left is None
    assert reports[-1].left == 0


def test_a_training_stops_when_its_patience_ends_and_keeps_the_best_epoch() -> None:
    scores = iter([0.1, 0.5, 0.4, 0.3, 0.2, 0.1])
    reports: list[Epoch] = []
    course = replace(COURSE, validate=lambda model: {"share": 0.25, "score": next(scores)}, patience=2)
    state = fit(line(), course, Options(), progress=parted(reports.append))
    assert (state.epoch, state.best_epoch) == (4, 2)
    assert weights(state.kept) != weights(state.average)
    assert "share 0.2500, score 0.3000 (best in epoch 2)" in reports[-1].text


def test_a_resumed_training_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    def stop(progress: Epoch) -> None:
        if progress.epoch == 3:
            raise RuntimeError

    options, messages = Options(state=tmp_path), list[str]()
    with pytest.raises(RuntimeError):
        fit(line(), COURSE, options, "toy", parted(stop))
    resumed = fit(line(), COURSE, options, "toy", progress=parted(silent, messages.append))
    assert messages == ["resuming after epoch 2 of 6"]
    assert weights(resumed.kept) == weights(fit(line(), COURSE, Options()).kept)
    with pytest.raises(FormatError, match="other data"):
        fit(line(), COURSE, options, "another")


def test_ctrl_c_ends_a_training_after_its_first_epoch_but_not_before() -> None:
    def stop(progress: Epoch) -> None:
        raise KeyboardInterrupt

    def never(generator: np.random.Generator) -> Sequence[Tensor]:
        raise KeyboardInterrupt

    state = fit(line(), COURSE, Options(), progress=parted(stop))
    assert (state.interrupted, state.epoch) == (True, 1)
    with pytest.raises(KeyboardInterrupt):
        fit(line(), replace(COURSE, batches=never), Options())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_where_states_are_saved_a_signal_lets_the_epoch_end_and_its_state_is_kept(
        tmp_path: Path, number: signal.Signals, capfd: pytest.CaptureFixture[str]) -> None:
    epochs = itertools.count(1)

    def interrupted(generator: np.random.Generator) -> Sequence[Tensor]:
        if next(epochs) == 3:
            signal.raise_signal(number)
        return batches(generator)

    options, messages = Options(state=tmp_path), list[str]()
    with interrupted_by_sigterm():
        state = fit(line(), replace(COURSE, batches=interrupted), options, "toy")
    assert (state.interrupted, state.epoch, saved_epoch(tmp_path)) == (True, 3, 3)
    assert "stopping after this epoch" in capfd.readouterr().err
    resumed = fit(line(), COURSE, options, "toy", progress=parted(silent, messages.append))
    assert messages == ["resuming after epoch 3 of 6"]
    assert weights(resumed.kept) == weights(fit(line(), COURSE, Options()).kept)
    assert saved_epoch(tmp_path) == 6


def test_a_second_ctrl_c_stops_at_once_with_the_state_that_was_saved_last(tmp_path: Path) -> None:
    epochs = itertools.count(1)

    def interrupted(generator: np.random.Generator) -> Sequence[Tensor]:
        if next(epochs) == 4:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return batches(generator)

    state = fit(line(), replace(COURSE, batches=interrupted), Options(state=tmp_path), "toy")
    assert (state.interrupted, saved_epoch(tmp_path)) == (True, 2)


def test_an_unfinished_training_ends_now_with_what_it_has_learned(tmp_path: Path) -> None:
    options = Options(state=tmp_path)
    with pytest.raises(MisuseError, match="holds no unfinished training"):
        fit(line(), COURSE, replace(options, end_now=True), "toy")
    three = fit(line(), replace(COURSE, until=3), Options())
    three.save(tmp_path, "toy")
    ended = fit(line(), COURSE, replace(options, end_now=True), "toy")
    assert (ended.epoch, weights(ended.kept)) == (3, weights(three.kept))


def test_a_shortened_training_follows_the_same_schedule_and_keeps_no_state(tmp_path: Path) -> None:
    whole = fit(line(), COURSE, Options())
    short = fit(line(), replace(COURSE, until=3), Options(state=tmp_path))
    assert short.history == whole.history[:3]
    assert not list(tmp_path.iterdir())


def test_a_run_draws_the_same_batches_however_many_epochs_came_before(tmp_path: Path) -> None:
    drawn: list[list[float]] = []

    def listening(generator: np.random.Generator) -> Sequence[Tensor]:
        drawn.append(torch.cat(list(batches(generator))).flatten().tolist())
        return batches(generator)

    def stop(progress: Epoch) -> None:
        raise KeyboardInterrupt

    course, options = replace(COURSE, batches=listening), Options(epochs=3, state=tmp_path, save_every=1)
    for _ in range(3):
        fit(line(), course, options, "toy", parted(stop))
    assert len(drawn) == 3
    fit(line(), course, Options(epochs=3))
    assert drawn[3:] == drawn[:3]
    assert drawn[0] != drawn[1]


def test_a_training_prints_and_writes_nothing_of_its_own(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    fit(line(), replace(COURSE, validate=lambda model: {"score": 0.5}), Options())
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("variable", "value"), [
    ("ACCELERATE_MIXED_PRECISION", "bf16"), ("ACCELERATE_TORCH_DEVICE", "meta"), ("LOCAL_RANK", "0")])
def test_the_variables_of_a_launcher_change_no_weight_and_stay_as_they_are(
        variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = fit(line(), COURSE, Options(epochs=2))
    monkeypatch.setenv(variable, value)
    assert weights(fit(line(), COURSE, Options(epochs=2)).kept) == weights(expected.kept)
    assert os.environ[variable] == value


def test_the_loss_of_an_epoch_is_the_mean_of_its_steps_and_a_number_that_is_none_is_shown() -> None:
    constant = replace(COURSE, loss=lambda model, points: 0 * model(points).sum() + points.sum())
    assert fit(line(), constant, Options()).history == [{"loss": pytest.approx(float(POINTS.sum()) / 2)}] * 6
    unknown = replace(COURSE, loss=lambda model, points: torch.nan * model(points).sum())
    assert np.isnan(fit(line(), unknown, Options()).history[0]["loss"])


def test_no_epoch_begins_after_the_deadline() -> None:
    def slow(generator: np.random.Generator) -> Sequence[Tensor]:
        time.sleep(0.2)
        return batches(generator)

    assert fit(line(), replace(COURSE, deadline=time.monotonic()), Options()).epoch == 0
    assert fit(line(), replace(COURSE, batches=slow, deadline=time.monotonic() + 0.3), Options()).epoch == 1
    assert fit(line(), replace(COURSE, deadline=time.monotonic() + 1000), Options()).epoch == Options().epochs
