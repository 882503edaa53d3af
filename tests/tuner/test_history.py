"""What a journal says of other problems, handed to strategies that learn from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from seqtune.data.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.similarity import distance
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.tuner.history import LEAST_TRIALS, MOST_PROBLEMS, history
from seqtune.tuner.strategies.random import Random
from seqtune.tuner.strategies.strategy import SearchContext
from seqtune.tuner.tune import Budget, Finals, TuningOptions, tune
from tests.support.fake_measurer import Fake

DEVICE = Device("test:1", "test", "paper", "none", toolchain="t1")
KERNEL = Kernel("test.k", "gemm", ("test",), (Parameter("x", tuple(range(10))), Parameter("y", tuple(range(10)))),
                (Constraint.of("x * y < 50", "too large"),), (("x", 0), ("y", 0)),
                solves=(Constraint.of("m < 100", "m is too large"),))
HERE = Problem.make("gemm", m=8, n=8, k=8)


def keep(journal: Journal, problem: Problem, rows: Sequence[int], when: float = 1.0, run: str = "random",
         version: int = 1, toolchain: str = "t1") -> None:
    """Records of these configurations; every fifth failed."""
    space = SearchSpace(KERNEL, HERE, DEVICE)
    for row in rows:
        measurement = Measurement(Status.CRASH) if row % 5 == 0 else Measurement(Status.CORRECT, (1.0 + row,))
        journal.add(Record(problem, DEVICE.key, version, space[row], toolchain, measurement, when, run))


def known(journal: Journal) -> list[tuple[int, int]]:
    """Of each other, m and how many trials."""
    found = history(journal, Task.of(HERE, DEVICE, [KERNEL]))
    return [(other.problem.size("m"), int(other.known.sum())) for other in found]


def test_the_nearest_problems_come_first_and_no_more_than_are_of_use(journal: Journal) -> None:
    for m in range(60, 60 - MOST_PROBLEMS - 3, -1):
        keep(journal, Problem.make("gemm", m=m, n=8, k=8), range(20))
    keep(journal, Problem.make("conv2d", c=8, h=8, w=8, k=8, r=1, s=1), range(20))
    found = known(journal)
    assert [m for m, _ in found] == list(range(60 - MOST_PROBLEMS - 2, 58))
    other = history(journal, Task.of(HERE, DEVICE, [KERNEL]))[0]
    assert other.seconds[:6].tolist() == [np.inf, 2.0, 3.0, 4.0, 5.0, np.inf]
    assert np.isnan(other.seconds[20:]).all()


def test_what_would_not_run_so_today_teaches_nothing(journal: Journal) -> None:
    for m, more in ((1, {"version": 2}), (2, {"toolchain": "older"}), (3, {"run": "final"})):
        keep(journal, Problem.make("gemm", m=m, n=8, k=8), range(20), **more)
    keep(journal, Problem.make("gemm", m=200, n=8, k=8), range(20))  # the kernel no longer solves it
    keep(journal, Problem.make("gemm", m=4, n=8, k=8), range(LEAST_TRIALS - 1))
    keep(journal, HERE, range(20))
    assert known(journal) == []


def test_a_resumed_search_knows_what_it_knew(journal: Journal) -> None:
    keep(journal, Problem.make("gemm", m=16, n=8, k=8), range(20), when=1.0)
    before = known(journal)
    keep(journal, HERE, [3], when=0.5, version=0)  # which today's search does not go on with
    keep(journal, HERE, [3], when=2.0)
    keep(journal, Problem.make("gemm", m=16, n=8, k=8), range(20, 40), when=3.0)
    keep(journal, Problem.make("gemm", m=32, n=8, k=8), range(20), when=3.0)
    assert known(journal) == before == [(16, 20)]


def test_sizes_differ_by_octaves_and_words_by_one() -> None:
    near, far, other = (Problem.make("gemm", m=8, n=8, k=8, **more) for more in ({}, {}, {"trans_b": "yes"}))
    assert distance(near, far) == 0.0
    assert distance(near, other) == 1.0
    assert distance(HERE, Problem.make("gemm", m=17, n=8, k=8)) == pytest.approx(1.0)


def test_a_strategy_that_reads_its_history_learns_from_other_problems(journal: Journal) -> None:
    given: list[Sequence[MeasuredTask]] = []

    class Listening(Random):
        def __init__(self, context: SearchContext) -> None:
            super().__init__(context)
            given.append(tuple(context.history))

    for m in (3, 4):
        tune(Task.of(Problem.make("gemm", m=m, n=4, k=5), DEVICE, [KERNEL]), journal, Fake(), Budget(trials=12),
             TuningOptions("listening", Listening, finals=Finals(count=0)))
    assert [len(history) for history in given] == [0, 1]
    assert [other.problem.size("m") for other in given[1]] == [3]
