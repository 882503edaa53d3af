"""A training that is stopped: its state is kept, the same command goes on, and --end-now writes what was learned."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqtune.__main__ import main
from seqtune.api import learning
from seqtune.cli import progress
from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.errors import InterruptedTraining
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.model import cached_model
from seqtune.tuner.backends.discovery import find
from tests.support.installation.optional import needs

pytestmark = needs("torch")
EPOCHS = 4


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words of a command that trains on few problems, without the cross-validation, which takes the most time."""
    monkeypatch.setattr("seqtune.predictor.times.small.training.cross_validate", lambda *given: None)
    device, generator = find("llvm:0"), np.random.default_rng(0)
    with Journal(tmp_path / "journal.sqlite") as journal:
        journal.add_device(device)
        for m in (8, 24, 64, 160, 320, 640):
            space = SearchSpace(kernel("llvm.gemm"), Problem.make("gemm", m=m, n=32, k=32), device)
            for configuration in space.sample(generator, 12):
                seconds = m * 1e-6 * (1 + space.row(configuration) / len(space))
                journal.add(Record(space.problem, device.key, space.kernel.version, configuration, device.toolchain,
                                   Measurement(Status.CORRECT, (seconds,), 0.0), 1.0, "random"))
        Dataset.from_journal(journal).write(tmp_path / "data.parquet")
    for path in tmp_path.glob("journal.sqlite*"):
        path.unlink()
    return ["train", str(tmp_path / "data.parquet"), "--epochs", str(EPOCHS), "--extra", "0", "--force"]


@pytest.fixture
def stop_in(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Send a signal to this process after an epoch."""
    def stop(epoch: int, number: signal.Signals) -> None:
        def shown(step: Any) -> None:
            if step.epoch == epoch:
                signal.raise_signal(number)

        monkeypatch.setattr(progress, "epoch", shown)

    return stop


def weights(checkpoint: Path) -> bytes:
    return (checkpoint / "model.safetensors").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_training_goes_on_with_the_same_command_and_ends_as_an_undisturbed_one(
        number: signal.Signals, words: list[str], stop_in: Any, tmp_path: Path,
        capsys: pytest.CaptureFixture[str]) -> None:
    out, state = tmp_path / "out", tmp_path / "out.training"
    stop_in(3, number)
    assert main([*words, "--out", str(out)]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"seqtune: stopped after epoch 3, kept in {state}; the same command goes on, and with --end-now it writes the "
        "checkpoint of what was learned so far")
    assert not out.exists()
    assert sorted(os.listdir(state)) == ["command.json", "state.safetensors"]
    stop_in(0, number)
    assert main([*words, "--out", str(out)]) == 0
    assert not state.exists()
    assert main([*words, "--out", str(tmp_path / "whole")]) == 0
    assert weights(out) == weights(tmp_path / "whole")


def test_it_ends_now_with_what_it_has_learned(
        words: list[str], stop_in: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, state = tmp_path / "out", tmp_path / "out.training"
    assert main([*words, "--out", str(out), "--end-now"]) == 2
    assert f"{state} holds no unfinished training to end; leave out --end-now" in capsys.readouterr().err
    assert not state.exists()
    stop_in(2, signal.SIGTERM)
    assert main([*words, "--out", str(out)]) == 130
    assert main([*words, "--out", str(out), "--seed", "5"]) == 2
    assert "holds an unfinished training of another command (seed: 0 there, 5 here); repeat that" in (
        capsys.readouterr().err)
    assert main([*words, "--out", str(out), "--end-now", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["epochs"], report["interrupted"]) == (2, True)
    assert cached_model(out).metrics["epochs"] == 2
    assert not state.exists()


def test_python_gets_an_error_that_says_how_to_go_on_and_nothing_is_kept_of_no_epoch(
        words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("seqtune.predictor.times.training.make_teacher", stopped)
    with pytest.raises(InterruptedTraining, match="before the end of the first epoch, so nothing is kept"):
        learning.train(words[1], tmp_path / "out", epochs=EPOCHS, extra=0, force=True)
    assert sorted(os.listdir(tmp_path)) == ["data.parquet"]


def test_the_shipped_data_have_one_name_in_every_folder(
        words: list[str], stop_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = Dataset.read(words[1])
    monkeypatch.setattr("seqtune.data.dataset.Dataset.shipped", lambda: shipped)
    stop_in(2, signal.SIGINT)
    assert main(["train", "shipped", *words[2:], "--out", str(tmp_path / "out")]) == 130
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert learning.train(None, tmp_path / "out", epochs=EPOCHS, extra=0, force=True).report["epochs"] == EPOCHS


def test_data_that_are_refused_leave_no_folder(words: list[str], tmp_path: Path) -> None:
    dataset = Dataset.read(words[1])
    first = sorted(dataset.known_problems)[:2]
    rows = dataset.rows[dataset.rows["problem"].isin(first)]
    Dataset(rows, dataset.devices, {key: dataset.known_problems[key] for key in first}, frozenset()).write(
        tmp_path / "few.parquet")
    assert main(["train", str(tmp_path / "few.parquet"), "--out", str(tmp_path / "out")]) == 2
    assert sorted(os.listdir(tmp_path)) == ["data.parquet", "few.parquet"]
