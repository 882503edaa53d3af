"""Collecting measurements with a measurer that answers at once."""

from __future__ import annotations

import math
from pathlib import Path

from benchmarks.data.collect import chosen_problems, collect, remaining
from benchmarks.data.collection import Collection
from benchmarks.data.locked_problems import locked_problems
from benchmarks.data.stages import FASTEST, OTHERS, STAGES
from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import CheckpointError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.task import Task
from seqtune.tuner.run.local_run import tune
from seqtune.tuner.run.plan import Budget, Finals, TuningOptions
from tests.support.measuring.instant import DEVICE, Instant

PROBLEMS = [parse_problem(f"gemm m={size} n=24 k=16") for size in (1, 40, 56)]


def first_five(task: Task) -> list[Configuration]:
    """Propose the first configurations of the space."""
    return [task[number] for number in range(5)]


def collection_of(journal: Journal, measurer: Instant) -> Collection:
    """Make a collection of the toy problems."""
    return Collection(DEVICE, journal, measurer, PROBLEMS, trials=12, propose=first_five)


def test_all_stages_are_done_once_and_a_stopped_collection_goes_on(tmp_path: Path) -> None:
    measurer = Instant()
    with Journal(tmp_path / "journal.sqlite") as journal:
        begun = tune(Task.of(PROBLEMS[0], DEVICE), journal, measurer, Budget(trials=12),
                     TuningOptions("random", finals=Finals(count=0)))  # as another program left it
        assert begun.done == measurer.count == 12
        collection = collection_of(journal, measurer)
        assert collect(collection, until=-math.inf) == {"trials": 2, "again": 3, "proposed": 3, "contest": 3}
        assert measurer.count == 12
        assert collect(collection, until=math.inf) == {}
        measured = measurer.count
        again = collection_of(journal, measurer)
        assert {*remaining(again)} <= {"again"}
        assert collect(again, until=math.inf) == {}
        assert measurer.count == measured
        data = Dataset.from_journal(journal)
    tasks = measured_tasks(data, held_out=False)
    assert {measured_task.problem for measured_task in tasks} == set(PROBLEMS)
    assert all(not math.isnan(task.time(configuration)) for task in tasks for configuration in first_five(task.task))
    contests = data.rows[data.rows["run"] == "contest"].groupby("problem").size()
    assert contests.tolist() == [2 * (FASTEST + OTHERS)] * 3


def knows_nothing(task: Task) -> list[Configuration]:
    """Raise the error of a checkpoint that lacks a kernel of the task."""
    raise CheckpointError("the checkpoint does not know the kernel")


def test_trees_of_the_trials_propose_where_the_checkpoint_lacks_a_kernel(tmp_path: Path) -> None:
    stages = [stage for stage in STAGES if stage.name in ("trials", "proposed")]
    with Journal(tmp_path / "journal.sqlite") as journal:
        collection = Collection(DEVICE, journal, Instant(), PROBLEMS, trials=12, propose=knows_nothing)
        assert set(remaining(collection, stages)) == {"trials", "proposed"}
        assert collect(collection, math.inf, stages) == {}
        rows = Dataset.from_journal(journal).rows
    assert set(rows["run"]) == {"random", "proposed"}
    assert (rows[rows["run"] == "proposed"].groupby("problem", observed=True).size() > 5).all()


def test_every_device_begins_with_all_kinds_and_nothing_locked() -> None:
    split = chosen_problems(complete=True, limit=None)
    assert not set(split.training) & set(locked_problems())
    assert len(split.training) == len(set(split.training)) > 400
    assert sum(problem.type == "conv2d" and problem["layout"] == "NHWC" for problem in split.training[:60]) > 5
    assert chosen_problems(complete=True, limit=9).training == split.training[:9]
