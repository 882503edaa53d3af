"""Evaluation as the front calls it: what the methods learn from, and what is measured on the spot."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from seqtune import api as learn
from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Status
from seqtune.errors import MisuseError, SeqtuneWarning
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.similarity import near
from seqtune.kernels.registry import kernel
from seqtune.kernels.say import silent
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.learning.kinds import EvaluationRequest
from seqtune.predictor.learning.tasks.evaluation import LiveContest
from seqtune.predictor.learning.tasks.learning import LearnedProblems, TaskLearning
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.measuring.compared_times import ComparedTimes
from tests.support.installation.optional import TRAINING, skip_without
from tests.support.learning.chosen import chosen_dataset
from tests.support.records import DEVICE, space_records, write_journal
from tests.support.synthetic import DIRECT, WIDE, seconds

pytestmark = pytest.mark.usefixtures("fake_kernel")


def test_a_recipe_gives_the_data_and_all_options_and_the_checkpoint_names_it(tmp_path: Path) -> None:
    skip_without(*TRAINING)
    written(tmp_path / "layers.parquet", LAYERS, [])
    recipe = tmp_path / "toy.recipe.json"
    recipe.write_text(json.dumps({"data": "layers.parquet", "options": {
        "epochs": 1, "width": 32, "heads": 2, "layers": 1, "hidden": 64, "validation": 0, "confidence": False,
        "seed": 3, "extra": 4, "threads": 1, "trees": {"rounds": 10, "models": 1}}}))
    learn.train(None, tmp_path / "out", recipe=recipe)
    checkpoint = Checkpoint.load(tmp_path / "out")
    assert checkpoint.provenance["recipe"] == "toy.recipe.json"
    assert (checkpoint.seed, checkpoint.size.width) == (3, 32)
    with pytest.raises(MisuseError, match="a recipe gives the data set and all options"):
        learn.train(None, tmp_path / "other", recipe=recipe, epochs=2)
    with pytest.raises(MisuseError, match="a recipe gives the data set and all options"):
        learn.train("layers.parquet", tmp_path / "other", recipe=recipe)


def written(path: Path, problems: Sequence[Problem], held_out: Sequence[Problem]) -> Path:
    """A data set with every configuration of these problems on a toy device."""
    rows = []
    for problem in problems:
        space = SearchSpace(DIRECT, problem, WIDE)
        rows += [{"device": WIDE.key, "problem": problem.key, "kernel": DIRECT.name, "kernel_version": DIRECT.version,
                  "configuration": space[row].key, "status": "correct", "seconds": time, "run": "random",
                  "spread": 0.0, "samples": 10, "error": 0.0, "build_seconds": 0.0, "toolchain": WIDE.toolchain}
                 for row, time in enumerate(seconds(space)) if math.isfinite(time)]
    Dataset(pd.DataFrame(rows), {WIDE.key: WIDE}, {problem.key: problem for problem in problems},
            frozenset(problem.key for problem in held_out)).write(path)
    return path


LAYERS = [Problem.make("conv2d", c=c, h=14, w=14, k=c, r=1, s=1) for c in (16, 32, 64, 128, 256, 512, 96)]
TWIN = Problem.make("conv2d", c=260, h=14, w=14, k=260, r=1, s=1)  # near one of LAYERS


def test_a_training_on_a_users_data_learns_all_problems_and_names_the_held_out_ones_near_them(tmp_path: Path) -> None:
    data = written(tmp_path / "data.parquet", [*LAYERS, TWIN], held_out=[LAYERS[0], TWIN])
    users, shipped = (LearnedProblems.of(Dataset.read(data), protect_held_out) for protect_held_out in (False, True))
    assert ({task.problem for task in users.training}, users.held_out) == ({*LAYERS[1:]}, [LAYERS[0]])
    assert (users.left_out, users.near_training) == (0, (TWIN.brief(),))
    assert ({task.problem for task in shipped.training}, shipped.held_out) == (
        {*LAYERS[1:]} - {LAYERS[4]}, [LAYERS[0], TWIN])
    assert (shipped.left_out, shipped.near_training) == (1, ())
    skip_without(*TRAINING)
    few = written(tmp_path / "few.parquet", [*LAYERS[4:6], TWIN], held_out=[TWIN])
    told: list[object] = []
    with pytest.raises(MisuseError, match="2 problems to learn from"):
        learn.train(few, tmp_path / "own", progress=told.append)
    leaked = f"1 problem ({TWIN.brief()}) is not used for evaluation: it is, or nearly is, a training problem"
    assert told == [f"note: {leaked}"]


def test_learning_from_records_of_earlier_versions_alone_says_so_and_is_refused(tmp_path: Path) -> None:
    skip_without(*TRAINING)
    records = [replace(record, kernel_version=0) for record in space_records(
        SearchSpace(kernel("llvm.gemm"), Problem.make("gemm", m=32, n=32, k=32), DEVICE), [1e-3, 2e-3])]
    with Journal(write_journal(tmp_path / "journal.sqlite", records, DEVICE)) as journal:
        Dataset.from_journal(journal).write(tmp_path / "old.parquet")
    with pytest.warns(SeqtuneWarning, match="2 records of llvm.gemm are of an earlier version and do not count"), \
            pytest.raises(MisuseError, match="no training problem that a kernel here solves"):
        learn.retrain("default", tmp_path / "old.parquet", tmp_path / "new", rehearse=tmp_path / "old.parquet")
    with pytest.warns(SeqtuneWarning, match="2 records of llvm.gemm are of an earlier version and do not count"), \
            pytest.raises(MisuseError, match="no training problem that a kernel here solves"):
        learn.train(tmp_path / "old.parquet", tmp_path / "new")


def test_a_live_evaluation_says_which_problems_were_learned_from(tmp_path: Path) -> None:
    known, twin, held, new = (Problem.make("gemm", m=m, n=32, k=32) for m in (32, 35, 100, 300))
    assert near(known, twin)
    place = find("llvm:0")
    records = [record for problem in (known, held)
               for record in space_records(SearchSpace(kernel("llvm.gemm"), problem, place), [1e-3])]
    with Journal(write_journal(tmp_path / "journal.sqlite", records, place)) as journal:
        Dataset.from_journal(journal, held_out=[held.key]).write(tmp_path / "data.parquet")

    def measured(problem: Problem, device: Device, wanted: Sequence[Configuration]) -> ComparedTimes:
        return ComparedTimes(dict.fromkeys(wanted, math.inf if problem == twin else 1e-3), {}, {}, {})

    told: list[str] = []
    request = EvaluationRequest(("default",), queries=tuple((problem, place) for problem in (known, twin, held, new)))
    found = TaskLearning(lambda device, say: nullcontext(measured)).evaluate(
        Checkpoint.load("default"), Dataset.read(tmp_path / "data.parquet"), request, silent, told.append)
    assert told[0].startswith("2 of 4 problems are, or nearly are, training problems")
    assert told[1:] == [f"left out: no configuration of {twin.brief()} ran on {place.name}"]
    assert {(row.to_json()["problems"], row.to_json()["trained_on"]) for row in found} == {(3, 1)}


def test_choices_train_a_checkpoint_and_are_evaluated_by_agreement(tmp_path: Path) -> None:
    skip_without(*TRAINING)
    data = tmp_path / "choices.parquet"
    chosen_dataset(sizes=[1024], held_out=[32]).write(data)
    report = learn.train(data, tmp_path / "checkpoint", epochs=2)
    assert report.to_json()["problems"] == 7
    rows = learn.evaluate(data, checkpoint=tmp_path / "checkpoint").to_json()["rows"]
    assert {row["method"] for row in rows} == {"seqtune", "transformer", "trees", "nearest", "analytic"}
    assert {row["choices"] for row in rows} == {1.0}
    assert all(0 <= row["exact"] <= row["per_parameter"] <= 1 for row in rows)
    with pytest.raises(MisuseError, match="--methods is for measurements"):
        learn.evaluate(data, checkpoint=tmp_path / "checkpoint", methods=["trees"])


TIMES = {Configuration.of("fake", {"number": number}): 1e-3 * (1 + number / 100) for number in range(5)}


class FakeRunner:
    """Every build is slower than the one before by a tenth, for all configurations alike."""

    def __init__(self) -> None:
        self.builds, self.closed = 0, 0

    def measure(self, problem: Problem, configurations: Sequence[Configuration],
                options: object, best: float = math.inf) -> Iterator[tuple[Configuration, Measurement]]:
        for configuration in configurations:
            yield configuration, Measurement(Status.CORRECT, (TIMES[configuration],))

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: object) -> list[Measurement]:
        self.builds += 1
        return [Measurement(Status.CORRECT, (TIMES[configuration] * (1 + self.builds / 10),) * rounds)
                for configuration in configurations]

    def close(self) -> None:
        self.closed += 1


def test_a_live_evaluation_holds_one_contest_with_a_new_worker_for_every_build() -> None:
    runner: Any = FakeRunner()
    with LiveContest(WIDE, silent, runner) as measure:
        contest = measure(LAYERS[0], WIDE, list(TIMES))
        assert (runner.builds, runner.closed) == (3, 2)
    assert contest.seconds == pytest.approx({configuration: 1.2 * seconds for configuration, seconds in TIMES.items()})
