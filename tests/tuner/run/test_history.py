"""The history of other problems in a journal, for strategies that learn from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.tuner.run.history import LEAST_TRIALS, MOST_PROBLEMS, history
from seqtune.tuner.run.local_run import tune
from seqtune.tuner.run.plan import Budget, Finals, TuningOptions
from seqtune.tuner.strategies.random import Random
from seqtune.tuner.strategies.strategy import SearchContext
from tests.support.fake_measurer import DEVICE, KERNEL, Fake

HERE = Problem.make("gemm", m=8, n=8, k=8)


def add_records(journal: Journal, problem: Problem, rows: Sequence[int], when: float = 1.0, run: str = "random",
                version: int = 1, toolchain: str = "t1") -> None:
    """Add records of these rows of the space to the journal; every fifth failed."""
    space = SearchSpace(KERNEL, HERE, DEVICE)
    for row in rows:
        measurement = Measurement(Status.CRASH) if row % 5 == 0 else Measurement(Status.CORRECT, (1.0 + row,))
        journal.add(Record(problem, DEVICE.key, version, space[row], toolchain, measurement, when, run))


def sizes_and_trials(journal: Journal) -> list[tuple[int, int]]:
    """The size m and the number of trials of each problem in the history of HERE."""
    others = history(journal, Task.of(HERE, DEVICE, [KERNEL]))
    return [(other.problem.size("m"), int(other.known.sum())) for other in others]


def test_the_nearest_problems_come_first_up_to_the_maximum(journal: Journal) -> None:
    for m in range(60, 60 - MOST_PROBLEMS - 3, -1):
        add_records(journal, Problem.make("gemm", m=m, n=8, k=8), range(20))
    add_records(journal, Problem.make("conv2d", c=8, h=8, w=8, k=8, r=1, s=1), range(20))
    problems = sizes_and_trials(journal)
    assert [m for m, _ in problems] == list(range(60 - MOST_PROBLEMS - 2, 58))
    other = history(journal, Task.of(HERE, DEVICE, [KERNEL]))[0]
    assert other.seconds[:6].tolist() == [np.inf, 2.0, 3.0, 4.0, 5.0, np.inf]
    assert np.isnan(other.seconds[20:]).all()


def test_records_of_other_versions_toolchains_and_runs_are_no_history(journal: Journal) -> None:
    for m, more in ((1, {"version": 2}), (2, {"toolchain": "older"}), (3, {"run": "final"})):
        add_records(journal, Problem.make("gemm", m=m, n=8, k=8), range(20), **more)
    add_records(journal, Problem.make("gemm", m=200, n=8, k=8), range(20))  # the kernel no longer solves it
    add_records(journal, Problem.make("gemm", m=4, n=8, k=8), range(LEAST_TRIALS - 1))
    add_records(journal, HERE, range(20))
    assert sizes_and_trials(journal) == []


def test_a_resumed_search_gets_the_history_that_it_had(journal: Journal) -> None:
    add_records(journal, Problem.make("gemm", m=16, n=8, k=8), range(20), when=1.0)
    before = sizes_and_trials(journal)
    add_records(journal, HERE, [3], when=0.5, version=0)  # a version that today's search does not resume
    add_records(journal, HERE, [3], when=2.0)
    add_records(journal, Problem.make("gemm", m=16, n=8, k=8), range(20, 40), when=3.0)
    add_records(journal, Problem.make("gemm", m=32, n=8, k=8), range(20), when=3.0)
    assert sizes_and_trials(journal) == before == [(16, 20)]


def test_a_strategy_that_reads_its_history_learns_from_other_problems(
        journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    histories: list[Sequence[MeasuredTask]] = []

    class Listening(Random):
        def __init__(self, context: SearchContext) -> None:
            super().__init__(context)
            histories.append(tuple(context.history))

    monkeypatch.setattr("seqtune.tuner.run.search.strategy_factory", lambda name: Listening)
    for m in (3, 4):
        tune(Task.of(Problem.make("gemm", m=m, n=4, k=5), DEVICE, [KERNEL]), journal, Fake(), Budget(trials=12),
             TuningOptions("listening", finals=Finals(count=0)))
    assert [len(tasks) for tasks in histories] == [0, 1]
    assert [other.problem.size("m") for other in histories[1]] == [3]
