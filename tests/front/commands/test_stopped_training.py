"""A training that is stopped: its state is kept, the same command goes on, and --end-now writes what was learned."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from seqtune.__main__ import main
from seqtune.api import learning
from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.errors import InterruptedTraining
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.predictors import cached_checkpoint
from seqtune.predictor.training.progress import Epoch
from seqtune.tuner.backends.discovery import find
from tests.support.command_line import Refused, Run
from tests.support.installation.optional import TRAINING, needs
from tests.support.records import space_records, write_journal

pytestmark = [needs(*TRAINING), pytest.mark.usefixtures("few_trees")]
EPOCHS = 3


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """The words of a command that trains on few problems."""
    device, generator = find("llvm:0"), np.random.default_rng(0)
    records = []
    for m in (8, 24, 64, 160, 640):
        space = SearchSpace(kernel("llvm.gemm"), Problem.make("gemm", m=m, n=32, k=32), device)
        rows = [space.row(configuration) for configuration in space.sample(generator, 12)]
        records += space_records(space, [m * 1e-6 * (1 + row / len(space)) for row in rows], rows)
    with Journal(write_journal(tmp_path / "journal.sqlite", records, device)) as journal:
        Dataset.from_journal(journal).write(tmp_path / "data.parquet")
    for path in tmp_path.glob("journal.sqlite*"):
        path.unlink()
    return ["train", str(tmp_path / "data.parquet"), "--epochs", str(EPOCHS), "--extra", "0", "--force"]


def stop_training(words: list[str], out: Path, epoch: int, number: signal.Signals) -> str:
    """Begin the training of the command, send a signal to this process after an epoch, and return the error's line."""
    def stop(step: str | Epoch) -> None:
        if isinstance(step, Epoch) and step.epoch == epoch:
            signal.raise_signal(number)

    with pytest.raises(InterruptedTraining) as stopped:
        learning.train(words[1], out, epochs=EPOCHS, extra=0, force=True, progress=stop)
    assert stopped.value.exit_code == 130
    return str(stopped.value)


def weights(checkpoint: Path) -> bytes:
    return (checkpoint / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_a_stopped_training_goes_on_with_the_same_command_and_ends_as_an_undisturbed_one(
        words: list[str], tmp_path: Path) -> None:
    out, state = tmp_path / "out", tmp_path / "out.training"
    for epoch, number in ((1, signal.SIGINT), (2, signal.SIGTERM)):
        assert stop_training(words, out, epoch, number) == (
            f"stopped after epoch {epoch}, kept in {state}; the same command goes on, and with --end-now it writes the "
            "checkpoint of what was learned so far")
        assert not out.exists()
        assert sorted(os.listdir(state)) == ["command.json", "state.safetensors"]
    assert main([*words, "--out", str(out)]) == 0
    assert not state.exists()
    assert main([*words, "--out", str(tmp_path / "whole")]) == 0
    assert weights(out) == weights(tmp_path / "whole")


def test_it_ends_now_with_what_it_has_learned(
        words: list[str], tmp_path: Path, run: Run, refused: Refused, capsys: pytest.CaptureFixture[str]) -> None:
    out, state = tmp_path / "out", tmp_path / "out.training"
    refusal = refused(*words, "--out", out, "--end-now")
    assert f"{state} holds no unfinished training to end; leave out --end-now" in refusal
    assert not state.exists()
    stop_training(words, out, 2, signal.SIGTERM)
    assert main([*words, "--out", str(out), "--seed", "5"]) == 2
    assert "holds an unfinished training of another command (seed: 0 there, 5 here); repeat that" in (
        capsys.readouterr().err)
    steps: list[str] = []

    def stop(step: str | Epoch) -> None:
        assert isinstance(step, str)
        steps.append(step)
        if step.startswith("growing trees: "):
            raise KeyboardInterrupt

    with pytest.raises(InterruptedTraining) as stopped:
        learning.train(words[1], out, epochs=EPOCHS, extra=0, force=True, end_now=True, progress=stop)
    assert "no further epoch" in steps[0]
    assert "beside its 2 epochs, such as trees, was computed; they are still in" in str(stopped.value)
    assert "--end-now" not in str(stopped.value)
    report = run(*words, "--out", out, "--end-now")
    assert (report["epochs"], report["interrupted"]) == (2, True)
    assert cached_checkpoint(out).metrics["epochs"] == 2
    assert not state.exists()


def test_python_gets_an_error_that_says_how_to_go_on_and_nothing_is_kept_of_no_epoch(
        words: list[str], tmp_path: Path) -> None:
    dataset = Dataset.read(words[1])
    twin = Problem.make("gemm", m=650, n=32, k=32)  # held out, and near a training problem: of that there is a note
    rows = dataset.rows[dataset.rows["problem"] == Problem.make("gemm", m=640, n=32, k=32).key].assign(problem=twin.key)
    Dataset(pd.concat([dataset.rows, rows]), dataset.devices, {**dataset.known_problems, twin.key: twin},
            frozenset([twin.key])).write(words[1])

    def stopped(step: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(InterruptedTraining, match="before the end of the first epoch, so nothing is kept"):
        learning.train(words[1], tmp_path / "out", epochs=EPOCHS, extra=0, force=True, progress=stopped)
    assert sorted(os.listdir(tmp_path)) == ["data.parquet"]


def test_the_shipped_data_have_one_name_in_every_folder_and_a_file_has_another_in_each(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        commands.append([learning.command_of(data)["data"] for data in (None, "shipped", "data.parquet")])
    assert commands == [["shipped", "shipped", str(tmp_path / name / "data.parquet")] for name in ("a", "b")]


def test_data_that_are_refused_leave_no_folder(words: list[str], tmp_path: Path) -> None:
    dataset = Dataset.read(words[1])
    first = sorted(dataset.known_problems)[:2]
    rows = dataset.rows[dataset.rows["problem"].isin(first)]
    Dataset(rows, dataset.devices, {key: dataset.known_problems[key] for key in first}, frozenset()).write(
        tmp_path / "few.parquet")
    assert main(["train", str(tmp_path / "few.parquet"), "--out", str(tmp_path / "out")]) == 2
    assert sorted(os.listdir(tmp_path)) == ["data.parquet", "few.parquet"]


@pytest.mark.parametrize("arguments", [("train", "shipped"), ("retrain", "default", "new.parquet")])
def test_several_processes_are_refused_before_anything_is_read(
        arguments: tuple[str, ...], tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "start it without torchrun or mpirun" in refused(*arguments, "--out", tmp_path / "out")
    assert not list(tmp_path.iterdir())
