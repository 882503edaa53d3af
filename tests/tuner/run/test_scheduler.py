"""A shared budget: which problem gets the next trials, and that a resumed run depends only on the journal."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial

import pytest

from seqtune.data.journal.journal import Journal
from seqtune.errors import InterruptedTuning
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.run.local_run import LocalRun
from seqtune.tuner.run.plan import Budget, Finals, Plan, TuningOptions, TuningProgress
from seqtune.tuner.run.result import TuningResult
from seqtune.tuner.run.scheduler import FIRST, RECENT, expected_gain
from tests.support.fake_measurer import KERNEL, Fake

PROBLEMS = [Problem.make("gemm", m=m, n=4, k=5) for m in (3, 5, 9)]
TOTAL = 60


def go(journal: Journal, measurer: Fake, total: int = TOTAL, strategy: str = "portfolio",
       problems: list[Problem] = PROBLEMS, seen: list[TuningProgress] | None = None,
       skipped: list[Problem] | None = None) -> list[TuningResult]:
    options = TuningOptions(strategy, finals=Finals(count=0), on_progress=(seen if seen is not None else []).append)
    run = LocalRun(Plan(problems, Budget(total=total), options, partial(Task.of, kernels=[KERNEL])), journal, measurer)
    results = list(run.results())
    if skipped is not None:
        skipped.extend(each.problem for each in run.skipped)
    return results


def test_the_expected_gain_is_the_mean_gain_of_the_last_trials() -> None:
    assert expected_gain([]) == expected_gain([1.0]) == expected_gain([math.inf, math.inf, 2.0, 1.0]) == math.inf
    assert expected_gain([4.0, 2.0]) == pytest.approx(math.log(2.0))
    assert expected_gain([8.0, 8.0, 4.0, 8.0]) == pytest.approx(math.log(2.0) / 2)
    assert expected_gain([2.0, 1.0] + [3.0] * RECENT) == 0.0
    assert expected_gain([2.0, 3.0, math.inf, math.inf]) == expected_gain([math.inf] * 9) == 0.0


@pytest.mark.parametrize("strategy", ["portfolio", "random", "droplet"])
def test_the_total_is_spent_once_and_no_trial_twice(journal: Journal, strategy: str) -> None:
    measurer, seen = Fake(), list[TuningProgress]()
    results = go(journal, measurer, strategy=strategy, seen=seen)
    trials = Counter(record.problem for record in journal.records())
    assert sum(trials.values()) == len(measurer.measured) == TOTAL
    assert [trials[problem] for problem in PROBLEMS] == [result.done for result in results]
    assert min(trials.values()) >= FIRST * TOTAL / len(PROBLEMS)
    assert [(step.done, step.total, step.problems) for step in seen] == [
        (done, TOTAL, 3) for done in range(1, TOTAL + 1)]
    assert all(result.configuration is not None for result in results)


def test_a_stopped_run_resumes_and_a_finished_one_measures_nothing(journal: Journal) -> None:
    first = Fake(interrupt_at=37)
    with pytest.raises(InterruptedTuning, match=r"stopped after 37 trials of 3 problems.*run again to resume"):
        go(journal, first)
    rest, seen = Fake(), list[TuningProgress]()
    go(journal, rest, seen=seen)
    assert len(rest.measured) == TOTAL - 37
    assert (seen[0].done, seen[0].resumed) == (38, 37)
    assert len({record.identity for record in journal.records()}) == TOTAL
    again = Fake()
    assert [result.resumed for result in go(journal, again)] == [
        sum(record.problem == problem for record in journal.records()) for problem in PROBLEMS]
    assert again.measured == []


def test_a_small_total_reaches_every_problem(journal: Journal) -> None:
    assert [result.done for result in go(journal, Fake(), total=3)] == [1, 1, 1]


def test_a_run_ends_where_every_space_does(journal: Journal) -> None:
    results = go(journal, Fake(), total=10_000, strategy="exhaustive")
    assert all(result.done == result.space for result in results)


def test_unsolvable_and_repeated_problems_use_no_trials(journal: Journal) -> None:
    skipped: list[Problem] = []
    hopeless = Problem.make("gemm", m=200, n=4, k=5)
    results = go(journal, Fake(), problems=[PROBLEMS[0], hopeless, PROBLEMS[0]], total=9, skipped=skipped)
    assert [(result.problem, result.done) for result in results] == [(PROBLEMS[0], 9)]
    assert skipped == [hopeless]
    assert go(journal, Fake(), problems=[hopeless]) == []
