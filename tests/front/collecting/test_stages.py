"""The stages of a collection, with a measurer that answers at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from seqtune.api.collecting.collection import LATER, Collection, Forecast, Proposals
from seqtune.api.collecting.results import CollectionProgress
from seqtune.api.collecting.stages import (
    FASTEST,
    OTHERS,
    STAGES,
    incomplete,
    measure_stages,
    remaining,
)
from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import CheckpointError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.collected import ProblemSplit
from seqtune.kernels.problem_sets.kinds import kind_of
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.task import Task
from seqtune.tuner.measuring.deadline import Deadline
from seqtune.tuner.run.local_run import tune
from seqtune.tuner.run.plan import Budget, Finals, TuningOptions
from tests.support.measuring.instant import DEVICE, Instant

PROBLEMS = tuple(parse_problem(f"gemm m={size} n=24 k=16") for size in (1, 40, 56))
ENDLESS, OVER = Deadline(), Deadline(0.0)


def first_five(task: Task) -> list[Configuration]:
    """Propose the first configurations of the space."""
    return [task[number] for number in range(5)]


def knows_nothing(task: Task) -> list[Configuration]:
    """Raise the error of a checkpoint that lacks a kernel of the task."""
    raise CheckpointError("the checkpoint does not know the kernel")


def collection_of(journal: Journal, measurer: Instant, training: Sequence[Problem] = PROBLEMS,
                  held_out: Sequence[Problem] = (), propose: Proposals = first_five, seed: int = 0) -> Collection:
    """Make a collection of toy problems."""
    return Collection(DEVICE, journal, measurer, ProblemSplit(tuple(training), tuple(held_out)), 12, propose, seed)


def test_all_stages_are_done_once_and_a_stopped_collection_goes_on(tmp_path: Path) -> None:
    measurer = Instant()
    with Journal(tmp_path / "journal.sqlite") as journal:
        begun = tune(Task.of(PROBLEMS[0], DEVICE), journal, measurer, Budget(trials=12),
                     TuningOptions("random", finals=Finals(count=0)))  # as another program left it
        assert begun.done == measurer.count == 12
        collection = collection_of(journal, measurer)
        assert measure_stages(collection, OVER) == {}
        assert remaining(collection) == {"trials": 2, "repeats": 3, "proposals": 3, "contests": 3}
        assert measurer.count == 12
        assert measure_stages(collection, ENDLESS) == {}
        assert remaining(collection) == {}
        measured = measurer.count
        again = collection_of(journal, measurer)
        assert {*remaining(again)} <= {"repeats"}
        assert measure_stages(again, ENDLESS) == {}
        assert remaining(again) == {}
        assert measurer.count == measured
        data = Dataset.from_journal(journal)
    tasks = measured_tasks(data, held_out=False)
    assert {measured_task.problem for measured_task in tasks} == set(PROBLEMS)
    assert all(not math.isnan(task.time(configuration)) for task in tasks for configuration in first_five(task.task))
    contests = data.rows[data.rows["run"] == "contest"].groupby("problem").size()
    assert contests.tolist() == [2 * (FASTEST + OTHERS)] * 3


def test_trees_of_the_trials_propose_where_the_checkpoint_lacks_a_kernel(tmp_path: Path) -> None:
    stages = [stage for stage in STAGES if stage.name in ("trials", "proposals")]
    with Journal(tmp_path / "journal.sqlite") as journal:
        collection = collection_of(journal, Instant(), propose=knows_nothing)
        assert set(remaining(collection, stages)) == {"trials", "proposals"}
        measure_stages(collection, ENDLESS, stages=stages)
        assert remaining(collection, stages) == {}
        rows = Dataset.from_journal(journal).rows
    assert set(rows["run"]) == {"random", "proposed"}
    assert (rows[rows["run"] == "proposed"].groupby("problem", observed=True).size() > 5).all()


def test_a_held_out_problem_is_measured_completely_and_without_proposals(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.sqlite") as journal:
        measure_stages(collection_of(journal, Instant(), PROBLEMS[:1], PROBLEMS[1:2]), ENDLESS)
        rows = Dataset.from_journal(journal).rows
    held_out = rows[rows["problem"] == PROBLEMS[1].key]
    assert (held_out["run"] == "random").sum() == len(Task.of(PROBLEMS[1], DEVICE))
    assert "proposed" not in set(held_out["run"])


def test_some_problems_of_every_kind_are_complete_before_others_begin(tmp_path: Path) -> None:
    problems = [parse_problem(text) for text in (
        "gemm m=40 n=24 k=16", "gemm m=56 n=24 k=16", "gemm m=1 n=24 k=16", "gemm m=1 n=48 k=16")]
    seen: list[CollectionProgress] = []
    with Journal(tmp_path / "journal.sqlite") as journal:
        measure_stages(collection_of(journal, Instant(), problems), ENDLESS, seen.append, block_size=2)
    blocks = [[step for step in seen if step.complete == complete] for complete in (0, 1, 3)]
    assert [step for block in blocks for step in block] == seen
    for block, size in zip(blocks, (1, 2, 1), strict=True):
        assert [step.stage for step in block] == [stage.name for stage in STAGES for _ in range(size)]
    assert [kind_of(problem) for problem in dict.fromkeys(step.problem for step in seen)][:2] in (
        ["gemm m=1", "gemm small"], ["gemm small", "gemm m=1"])
    assert "(3 of 4 problems complete)" in seen[-1].text


def test_a_short_collection_completes_whole_problems(tmp_path: Path) -> None:
    training = [parse_problem(f"gemm m={size} n=24 k=16") for size in (8, 16, 24, 32)]
    one, several = Instant(), Instant()
    with Journal(tmp_path / "one.sqlite") as journal:
        measure_stages(collection_of(journal, one, training[:1]), ENDLESS)
    with Journal(tmp_path / "several.sqlite") as journal:
        collection = collection_of(journal, several, training)
        second = one.count / collection.forecast.seconds  # records
        measure_stages(collection, Deadline(2.7 * collection.forecast.seconds, lambda: several.count / second))
        lacking = incomplete(collection)
        assert len(lacking) == 2
        assert len([problem for problem in lacking if collection.runs[problem]]) <= 1


def test_the_forecast_says_what_the_time_buys_and_learns_from_what_was_measured() -> None:
    first = Forecast.of("llvm", 96, ())
    assert 20 < first.seconds < 60
    assert Forecast.of("opencl", 96, ()).seconds > 2 * first.seconds
    known = Forecast.of("llvm", 96, [*range(100), *range(10_000, 10_100)])
    assert known.seconds == pytest.approx(96 + LATER), "a pause between two calls does not count"
    known.learn(2, 20.0)
    known.learn(1, 40.0)
    assert known.seconds == pytest.approx(20.0)
    assert [known.block(8, left) for left in (1000.0, 70.0, 5.0, math.inf)] == [8, 3, 1, 8]
    assert known.text("llvm:avx2:2", 4, 60.0) == (
        "llvm:avx2:2: 4 problems to complete, about 20 s each: 1 min is enough for about 3")
    assert "may complete none" in known.text("llvm:avx2:2", 4, 10.0)
    assert known.text("llvm:avx2:2", 1, math.inf).endswith("1 problem to complete, about 20 s each, 0 min in all")
