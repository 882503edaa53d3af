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
from seqtune.cli.tables import console
from seqtune.cli.tables import learning as tables
from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Status
from seqtune.errors import MisuseError, SeqtuneWarning
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.problem_sets.similarity import near
from seqtune.kernels.registry import kernel
from seqtune.kernels.say import silent
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.learning.kinds import EvaluationRequest
from seqtune.predictor.learning.tasks.adaptation.report import RetrainingReport, comparison_rows
from seqtune.predictor.learning.tasks.evaluation import LiveContest
from seqtune.predictor.learning.tasks.learning import LearnedProblems, TaskLearning
from seqtune.predictor.learning.tasks.shares import Outcome
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.measuring.compared_times import ComparedTimes
from tests.support.installation.optional import TRAINING, skip_without
from tests.support.learning.chosen import chosen_dataset
from tests.support.records import DEVICE, space_records, write_journal
from tests.support.synthetic import DIRECT, NARROW, WIDE, data, seconds

pytestmark = pytest.mark.usefixtures("fake_kernel")

PROBLEM = Problem.make("gemm", m=8, n=8, k=8)


def choice(number: int) -> Configuration:
    return Configuration.of("fake", {"number": number})


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


def test_the_methods_learn_the_same_whether_one_device_or_all_are_evaluated(tmp_path: Path) -> None:
    made = data(8, held_out=3, sampled=60)
    rows = made.frame.assign(kernel_version=DIRECT.version, spread=0.0, samples=10, error=0.0, build_seconds=0.0,
                             toolchain="toy")
    problems = {key: parse_problem(key) for key in rows["problem"].unique()}
    held_out = frozenset(rows["problem"][rows["held_out"]])
    Dataset(rows, made.devices, problems, held_out).write(tmp_path / "data.parquet")
    answers = {device: learn.evaluate(tmp_path / "data.parquet", methods=["trees", "default"], device=device)
               for device in (None, WIDE.name)}
    found = {device: answer.to_json()["rows"] for device, answer in answers.items()}
    assert {row["device"] for row in found[None]} == {WIDE.name, NARROW.name}
    assert found[WIDE.name] == [row for row in found[None] if row["device"] == WIDE.name]


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


def test_more_records_than_a_training_holds_in_memory_are_refused_in_one_line(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without(*TRAINING)
    monkeypatch.setattr("seqtune.predictor.learning.tasks.learning.MOST_RECORDS", 10)
    written(tmp_path / "data.parquet", LAYERS, [])
    with pytest.raises(MisuseError, match=r"^the data set has [\d,]+ records; .* in memory, at most 10; learn"):
        learn.train(tmp_path / "data.parquet", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["data.parquet"]


def test_held_out_problems_near_a_training_problem_of_a_users_data_are_not_evaluated_on(tmp_path: Path) -> None:
    data = written(tmp_path / "data.parquet", [*LAYERS, TWIN], held_out=[LAYERS[0], TWIN])
    told: list[str] = []
    rows = learn.evaluate(data, methods=["default"], note=told.append).to_json()["rows"]
    assert {row["problems"] for row in rows} == {1}
    assert told == [
        f"1 problem ({TWIN.brief()}) is not used for evaluation: it is, or nearly is, a training problem of the data "
        "set"]
    with pytest.raises(MisuseError, match=r"nothing to evaluate on: 1 problem .* hold out others"):
        learn.evaluate(written(tmp_path / "near.parquet", [*LAYERS, TWIN], held_out=[TWIN]), methods=["default"])
    shipped = EvaluationRequest(("default",), protect_held_out=True)
    evaluated = TaskLearning().evaluate(Checkpoint.load("default"), Dataset.read(data), shipped, silent, told.append)
    problems = {row.to_json()["problems"] for row in evaluated}
    assert problems == {2}, "what the shipped data hold out is protected by the trainings"
    assert len(told) == 1


def test_the_table_of_a_retraining_fits_a_terminal_and_its_notes_are_printed(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def outcomes(share: float) -> list[Outcome]:
        logs = {("seqtune", count): math.log(share) for count in (0, 3)}
        return [Outcome(f"{number}", "llvm:avx512:2 znver5", logs, 0) for number in range(6)]

    report = RetrainingReport(
        ("llvm:avx512:2 znver5",), 20, 20, 300, (), comparison_rows("new", outcomes(0.9), outcomes(0.8)), (),
        {"new": (), "old": ("gemm m=1",)}, (), tuple(f"llvm:avx2:{count} znver4" for count in range(12)), 0, 3, 5,
        False, True, 171.2)
    monkeypatch.setattr(console.out, "width", 80)
    tables.retrained({"out": "adapted", **report.to_json()})
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "6 new" in printed.out
    assert any("first" in line and "-0.100 [-0.100, -0.100] †" in line for line in lines)
    assert any("best of 3" in line for line in lines)
    assert "(left out: 0)" in printed.out
    assert all(device in " ".join(printed.out.split()) for device in report.unchanged)
    assert "ended by the time limit" in " ".join(printed.out.split())
    assert printed.err.splitlines() == [f"note: {note}" for note in report.notes]
    assert len(report.notes) == 4
    assert "note: 3 of 5 epochs fitted into the time" in printed.err


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


TIMES = {choice(number): 1e-3 * (1 + number / 100) for number in range(5)}


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
        contest = measure(PROBLEM, WIDE, list(TIMES))
        assert (runner.builds, runner.closed) == (3, 2)
    assert contest.seconds == pytest.approx({configuration: 1.2 * seconds for configuration, seconds in TIMES.items()})
