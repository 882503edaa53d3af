"""Tests of training on few problems: the cross-validation, its interruption and resumption, and noise."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import JsonValue

from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.say import silent
from seqtune.kernels.task import MeasuredTask
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.learning.tasks.small.cross_validation import COUNTS, METHODS, cross_validate
from seqtune.predictor.learning.tasks.small.folds import FOLDS, folds_of
from seqtune.predictor.learning.tasks.small.options import options_of
from seqtune.predictor.learning.tasks.small.training import train_small
from seqtune.predictor.learning.tasks.training import train_model
from seqtune.predictor.training.unfinished import CROSS_VALIDATION
from seqtune.predictor.trees.cost_trees import TreesOptions
from tests.support.learning.progress import parted
from tests.support.learning.short_training import QUICK
from tests.support.synthetic import WIDE, data

pytestmark = pytest.mark.usefixtures("fake_kernel")

OPTIONS = replace(QUICK, epochs=1, validation=0.0, trees=TreesOptions(rounds=20, models=1, threads=1))


@pytest.fixture(name="tasks")
def _tasks() -> list[MeasuredTask]:
    return measured_tasks(data(6, held_out=0, sampled=40, devices=(WIDE,)), held_out=False)


def test_the_report_compares_the_training_with_simple_methods_on_problems_it_has_not_seen(
        tasks: list[MeasuredTask], tmp_path: Path) -> None:
    checkpoint, report = train_small(tasks, [], OPTIONS)
    validated = report["cross_validation"]
    assert "5 folds, 6 problems" in validated["how"]
    assert {(row["method"], row["measured"]) for row in validated["shares"]} == {
        (method, count) for method in METHODS for count in COUNTS}
    assert all(0 < row["share"] <= 1 for row in validated["shares"])
    assert report["remarks"][0] == "6 problems; 30 give a useful predictor"
    beaten = [row for row in validated["shares"] if row["low"] is not None and row["low"] <= 0
              and row["method"] in ("default", "random", "fixed", "nearest")]
    assert any("not clearly more than" in remark for remark in report["remarks"]) == bool(beaten)
    assert not report["interrupted"]
    assert checkpoint.ranker is not None
    checkpoint.save(tmp_path / "checkpoint")
    assert Checkpoint.load(tmp_path / "checkpoint").metrics["cross_validation"] == validated


def test_an_interrupted_cross_validation_is_resumed_or_ends_with_the_finished_folds(
        tasks: list[MeasuredTask], tmp_path: Path) -> None:
    options = replace(OPTIONS, state=tmp_path / "state")

    def interrupt(step: str) -> None:
        if "fold 3" in step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_small(tasks, [], options, progress=parted(silent, interrupt))
    steps: list[str] = []
    _, report = train_small(tasks, [], replace(options, end_now=True), progress=parted(silent, steps.append))
    assert report["interrupted"]
    assert report["cross_validation"]["folds"] == 2
    assert not [step for step in steps if "fold" in step]
    assert any(step.startswith("growing trees: ") for step in steps)
    _, report = train_small(tasks, [], options, progress=parted(silent, steps.append))
    assert not report["interrupted"]
    first, *others = [step for step in steps if "fold" in step]
    assert first == f"cross-validation: fold 3 of {FOLDS}"
    assert [re.sub("[0-9]+ s left", "N s left", step) for step in others] == [
        f"cross-validation: fold {n} of {FOLDS}, about N s left" for n in (4, 5)]
    whole = cross_validate(folds_of(tasks, OPTIONS.seed), OPTIONS)
    assert whole is not None
    assert report["cross_validation"] == whole.to_json()
    (tmp_path / "state" / CROSS_VALIDATION).write_text("[]")
    with pytest.raises(FormatError, match="does not hold a cross-validation"):
        cross_validate(folds_of(tasks, 0), options)


def test_a_checkpoint_tells_whether_it_was_trained_on_tasks(tasks: list[MeasuredTask]) -> None:
    options = replace(OPTIONS, seed=3)
    checkpoint, _ = train_model(tasks, [], options)
    assert options_of(checkpoint, tasks) == options
    assert options_of(checkpoint, tasks[1:]) is None
    other: dict[str, JsonValue] = {**checkpoint.provenance, "options": {"beams": 3}}
    assert options_of(replace(checkpoint, provenance=other), tasks) is None


def test_noise_is_refused_before_the_training(tasks: list[MeasuredTask]) -> None:
    generator = np.random.default_rng(0)
    noise = [MeasuredTask(measured.task, np.where(measured.known, generator.uniform(1, 2, len(measured.task)), np.nan))
             for measured in tasks]
    with pytest.raises(MisuseError, match=r"the times are unrelated to the configurations: .*\(--force\)"):
        train_small(noise, [], OPTIONS)
