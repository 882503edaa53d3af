"""Calibrating and retraining for a GPU that is not here: a stand-in answers, whose times follow data sheets."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import seqtune
from seqtune.api import calibrating
from seqtune.data.dataset import Dataset
from seqtune.data.measured_tasks import measured_tasks
from seqtune.data.record import Measurement, Status
from seqtune.data.shipped_machines import GPUS
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.collected import probes
from seqtune.kernels.task import Task
from seqtune.predictor.predictors import cached_checkpoint
from seqtune.tuner.backends import discovery
from seqtune.tuner.cost_models.analytic import estimates
from seqtune.tuner.measuring.timing import Options
from tests.support.devices import described_gpu
from tests.support.learning.short_training import QUICK

pytest.importorskip("torch", reason="PyTorch is not installed: make develop")

from seqtune.predictor.learning.tasks.adaptation import retraining
from seqtune.predictor.learning.tasks.training import train_model

GPU = described_gpu("cuda", "a100")
KERNEL = "cuda.tensor_convolution"


class StandIn:
    """The GPU: a configuration takes what the analytic model estimates."""

    device = GPU

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def start(self) -> None:
        pass

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        task = Task.of(problem, GPU)
        seconds = estimates(task)
        for configuration in configurations:
            yield configuration, Measurement(Status.CORRECT, (float(seconds[task.number(configuration)]),))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of convolutions in half precision on an H100, trained for an epoch."""
    data = Dataset.read(GPUS / "nvidia_h100.parquet")
    tasks = measured_tasks(replace(data, rows=data.rows[data.rows["kernel"] == KERNEL]), held_out=False)
    options = replace(QUICK, epochs=1, validation=0.0, trees=replace(QUICK.trees, models=2))
    return train_model(tasks, [], options)[0].save(tmp_path_factory.mktemp("gpu") / "checkpoint")


@pytest.mark.slow
def test_a_calibrated_gpu_corrects_its_predictions_and_its_records_retrain_the_checkpoint(
        checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrating, "Runner", lambda device: StandIn())
    monkeypatch.setattr(discovery, "check_present", lambda device: None)
    journal = tmp_path / "journal.sqlite"
    problems = [problem for problem in probes("cuda") if problem.type == "conv2d"][:5]
    turns: list[int] = []

    def on_turn(turn: calibrating.CalibrationProgress) -> None:
        turns.append(turn.probes)
        if len(turns) == len(problems):
            monkeypatch.setattr(calibrating, "FITS", 1e9)  # ends the calibration, as its time would

    result = seqtune.api.calibrate(GPU, problems=problems, checkpoint=checkpoint, journal=journal, progress=on_turn)
    assert result.measurements > 50
    asked = problems[0]
    corrected = seqtune.predict(asked, GPU, checkpoint=checkpoint, journal=journal, top=1)
    assert corrected.evidence == result.measurements
    assert corrected.note

    few = replace(retraining.RETRAINING, rehearsed=5, evaluated=1, examples=32, added=5, threads=1)
    monkeypatch.setattr(retraining, "RETRAINING", few)
    data, adapted = tmp_path / "mine.parquet", tmp_path / "adapted"
    seqtune.api.export(data, journal=journal)
    report = seqtune.retrain(checkpoint, data, adapted, epochs=1, extra=0).to_json()
    assert report["new_devices"] == [GPU.name]
    assert report["old_cases"] > 0, "the H100's shipped records are rehearsed"
    model = cached_checkpoint(adapted)
    assert not model.on(GPU).is_new(GPU)
    here = described_gpu("cuda", "h100")
    before, after = (seqtune.predict(asked, here, checkpoint=each, evidence=False, top=3).candidates
                     for each in (checkpoint, adapted))
    assert after == before, "other GPUs keep their answers"
