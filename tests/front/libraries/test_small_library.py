"""A library's few problems from a data set to a checkpoint: train, evaluate, predict, retrain on a second device."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import seqtune
from seqtune.__main__ import main
from seqtune.data.dataset import Dataset
from seqtune.errors import CheckpointError, InterruptedTraining
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.task import Task
from seqtune.predictor.checkpoint import Checkpoint
from tests.support.command_line import Refused, Run
from tests.support.installation.optional import TRAINING, needs
from tests.support.learning.progress import parted
from tests.support.libraries.stencil import write
from tests.support.synthetic import NARROW, WIDE

SIZES = (32, 48, 64, 96, 128, 192)


def _seconds(problem: Problem, settings: dict[str, Any], device: Device) -> float:
    """Times with an optimum that depends on the problem's size and on the device."""
    wanted = 32 if problem.size("n") > 80 and device is WIDE else 16
    return 1e-6 * problem.size("n") * (1 + sum(abs(math.log2(int(value) / wanted)) for value in settings.values()) / 4)


def _write(path: Path, device: Device, sizes: Iterable[int] = SIZES, held_out: Iterable[int] = ()) -> Path:
    """A data set with every configuration of the library's kernel."""
    rows, problems = [], {}
    for size in sizes:
        problem = Problem.make("stencil", n=size)
        problems[problem.key] = problem
        for configuration in list(Task.of(problem, device, [kernel("stencil.tiled")])):
            seconds = _seconds(problem, dict(configuration.settings), device)
            rows.append({"device": device.key, "problem": problem.key, "kernel": configuration.kernel,
                         "kernel_version": kernel("stencil.tiled").version, "configuration": configuration.key,
                         "status": "correct", "seconds": seconds, "spread": 0.0, "samples": 1, "error": 0.0,
                         "build_seconds": 0.0, "run": "random", "toolchain": device.toolchain})
    keys = frozenset(Problem.make("stencil", n=size).key for size in held_out)
    Dataset(pd.DataFrame(rows), {device.key: device}, problems, keys).write(path)
    return path


@needs(*TRAINING)
@pytest.mark.usefixtures("few_trees")
def test_few_problems_of_a_library_go_from_a_data_set_to_answers_on_two_devices(
        tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    library = str(write(tmp_path))
    seqtune.use_library(library)
    data, made = _write(tmp_path / "data.parquet", WIDE), tmp_path / "checkpoint"
    words = ["--library", library, "--epochs", "1"]
    report = run("train", data, "--out", made, *words)
    assert "5 folds, 6 problems" in report["cross_validation"]["how"]
    assert main(["evaluate", str(data), "--checkpoint", str(made), "--library", library, "--methods", "seqtune,default",
                 "--json"]) == 0
    output = capsys.readouterr()
    assert "the data set holds out no problem, so the training of this checkpoint is repeated" in output.err
    shares = {(row["method"], row["measured"]): row["share"] for row in json.loads(output.out)["rows"]}
    assert set(shares) == {(method, count) for method in ("seqtune", "default") for count in (0, 3, 5)}
    assert shares["seqtune", 0] == next(row["share"] for row in report["cross_validation"]["shares"]
                                        if (row["method"], row["measured"]) == ("seqtune", 0))

    second = _write(tmp_path / "second.parquet", NARROW, held_out=SIZES[-2:])
    adapted = tmp_path / "adapted"
    result = seqtune.retrain(made, second, adapted, epochs=1).to_json()
    assert result["old_cases"] == 0
    assert (result["left_out"], result["unevaluated"]) == (0, [])
    assert {(row["device"], row["records"], row["problems"])
            for row in result["evaluated"]} == {(NARROW.name, "new", 2)}
    ended = seqtune.retrain(made, second, tmp_path / "ended", epochs=2,
                            progress=parted(lambda epoch: signal.raise_signal(signal.SIGTERM))).to_json()
    assert (ended["interrupted"], ended["epochs"]) == (True, 1)
    with pytest.raises(InterruptedTraining, match="nothing is kept"):
        seqtune.retrain(made, second, tmp_path / "none", progress=lambda step: signal.raise_signal(signal.SIGTERM))
    assert not (tmp_path / "none").exists()
    answers = [seqtune.predict("stencil n=160", WIDE, 3, checkpoint=path, evidence=False).candidates
               for path in (made, adapted)]
    assert answers[0] == answers[1]
    assert seqtune.predict("stencil n=160", NARROW, 3, checkpoint=adapted, evidence=False).candidates
    with pytest.raises(CheckpointError, match="was not trained for llvm devices"):
        seqtune.predict("gemm m=8 n=8 k=8", "llvm:0", checkpoint=adapted, evidence=False)
    with pytest.raises(CheckpointError, match=r"llvm.gemm is not in it \(it knows kernels of stencil\)"):
        Checkpoint.load(adapted).check_kernels([kernel("llvm.gemm")])


@needs(*TRAINING)
@pytest.mark.parametrize(("sizes", "complaint"), [
    ((32, 64, 128), "3 problems to learn from; at least 5 are needed, 30 give a useful predictor"),
    ((32,), "1 problem to learn from")])
def test_too_few_problems_are_one_line_and_nothing_is_written(
        sizes: tuple[int, ...], complaint: str, tmp_path: Path, refused: Refused) -> None:
    library = str(write(tmp_path))
    seqtune.use_library(library)
    data = _write(tmp_path / "data.parquet", WIDE, sizes)
    error = refused("train", data, "--out", tmp_path / "made", "--library", library)
    assert complaint in error
    assert not (tmp_path / "made").exists()
