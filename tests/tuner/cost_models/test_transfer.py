"""Transfer: other devices' and problems' times help where they can, and are left as soon as they mislead."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.data.record import Measurement, Status
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import MeasuredTask
from seqtune.tuner.cost_models.transfer import sources
from seqtune.tuner.strategies.portfolio import Portfolio
from tests.support.tasks import context, task_of

KERNEL = Kernel(
    "test.k", "gemm", ("test",),
    (Parameter("a", (1, 2, 4, 8, 16)), Parameter("b", (1, 2, 4, 8, 16)), Parameter("c", (1, 2, 4, 8, 16)),
     Parameter("d", (0, 1))), (Constraint.of("a * b <= 64", "too large"),), ())
PROBLEM = Problem.make("gemm", m=64, n=64, k=64)


def space(device: str = "one", problem: Problem = PROBLEM) -> SearchSpace:
    return SearchSpace(KERNEL, problem, Device(f"test:{device}", "test", "paper", "none"))


def times(found: SearchSpace, threads: float = 4.0) -> NDArray[np.float64]:
    """Best where a * b has that binary logarithm, c that of m / 16, and d is 1."""
    columns = found.columns()
    c = np.log2(found.problem.size("m") / 16)
    return np.asarray(1e-3 * np.exp(0.4 * np.abs(np.log2(columns["a"] * columns["b"]) - threads)
                                    + 0.3 * np.abs(np.log2(columns["c"]) - c) + 0.2 * (columns["d"] == 0)
                                    + 0.01 * np.sin(np.arange(len(found)))))


def shares(strategy: Portfolio, found: SearchSpace, seconds: NDArray[np.float64], trials: int,
           batch: int = 4) -> NDArray[np.float64]:
    """The share of the best after each trial."""
    seen: list[float] = []
    while len(seen) < trials:
        for configuration in strategy.ask(batch):
            seen.append(float(seconds[found.row(configuration)]))
            strategy.tell(configuration, Measurement(Status.CORRECT, (seen[-1],)))
    return np.asarray(seconds.min() / np.minimum.accumulate(seen[:trials]))


def test_times_of_another_device_are_looked_up_and_failures_count_as_slow() -> None:
    here, there = space(), space("two")
    seconds = times(there)
    seconds[3], seconds[4] = np.inf, np.nan
    found = sources(task_of(here), [MeasuredTask(task_of(there), seconds)])
    assert found is not None
    assert found.each.shape == (len(here), 1)
    assert np.argmin(found.prior) == np.nanargmin(seconds)
    assert found.each[3, 0] == found.each.max()
    assert np.isfinite(found.each).all()
    assert found.fastest == pytest.approx(np.nanmin(seconds))


def test_kernels_of_which_nothing_is_known_have_no_sources() -> None:
    other = Kernel("test.other", "gemm", ("test",), KERNEL.parameters, (), ())
    there = SearchSpace(other, PROBLEM, Device("test:two", "test", "paper", "none"))
    assert sources(task_of(space()), [MeasuredTask(task_of(there), np.ones(len(there)))]) is None
    assert sources(task_of(space()), [MeasuredTask(task_of(space("two")), np.full(len(space()), np.nan))]) is None


def test_a_kernel_that_no_other_problem_tried_counts_as_middling() -> None:
    other = Kernel("test.other", "gemm", ("test",), KERNEL.parameters, (), ())
    here, there = space(), space(problem=Problem.make("gemm", m=32, n=64, k=64))
    task = task_of(here, SearchSpace(other, PROBLEM, here.device))
    found = sources(task, [MeasuredTask(task_of(there), times(there))])
    assert found is not None
    known, untried = found.prior[:len(here)], found.prior[len(here):]
    assert untried == pytest.approx(np.median(known))
    assert known.min() < untried.min() < known.max()


@pytest.mark.parametrize("spaces", [1, 3])
def test_a_past_of_spaces_of_one_configuration_is_no_trouble(spaces: int) -> None:
    """Nothing tells such configurations apart but their kernels."""
    here, there = ([SearchSpace(Kernel(f"test.k{number}", "gemm", ("test",), (Parameter("a", (1,)),), (), ()), PROBLEM,
                                space(device).device) for number in range(spaces)] for device in ("one", "two"))
    strategy = Portfolio(context(here, history=[MeasuredTask(task_of(*there), np.linspace(1.0, 2.0, spaces))]))
    asked = []
    while configurations := strategy.ask(1):
        asked += configurations
        strategy.tell(configurations[0], Measurement(Status.CORRECT, (1.0,)))
    assert len(set(asked)) == len(asked) == spaces


def test_the_same_seed_and_past_give_the_same_proposals() -> None:
    here, there = space(), space("two")
    asked = []
    for _ in range(2):
        strategy = Portfolio(context(here, 7, history=[MeasuredTask(task_of(there), times(there))]))
        shares(strategy, here, times(here, 2.0), 16)
        asked.append(strategy.told)
    assert asked[0] == asked[1]


def test_with_a_like_device_the_first_proposal_is_near_the_best() -> None:
    here, there = space(), space("two")
    strategy = Portfolio(context(here, history=[MeasuredTask(task_of(there), times(there))]))
    found = shares(strategy, here, times(here, 4.0) * 3, 10)
    assert found[0] == 1.0


def test_other_problems_tell_what_to_expect_of_this_one() -> None:
    here = space(problem=Problem.make("gemm", m=128, n=64, k=64))
    generator = np.random.default_rng(0)
    history = []
    for m in (32, 64, 256):
        there = space(problem=Problem.make("gemm", m=m, n=64, k=64))
        seconds = np.where(generator.random(len(there)) < 0.7, times(there), np.nan)
        history.append(MeasuredTask(task_of(there), seconds))
    with_history = shares(Portfolio(context(here, history=history)), here, times(here), 8)
    alone = np.mean([shares(Portfolio(context(here, seed)), here, times(here), 8)[-1] for seed in range(4)])
    assert with_history[-1] > alone


@pytest.mark.parametrize("seed", range(3))
def test_a_misleading_past_is_left_as_soon_as_evidence_says_so(seed: int) -> None:
    here, there = space(), space("two")
    seconds = times(here)
    history = [MeasuredTask(task_of(there), 1e-6 / times(there))]  # the best there is the worst here
    misled = shares(Portfolio(context(here, seed, history=history)), here, seconds, 50)
    alone = shares(Portfolio(context(here, seed)), here, seconds, 50)
    assert misled[-1] > 0.8 * alone[-1]


def test_a_start_where_all_is_slower_than_elsewhere_is_left_quickly() -> None:
    here = space()
    there = times(here)
    slow = np.where(here.columns()["c"] >= 2, 12.0, 1.0)  # nothing measured there tells
    strategy = Portfolio(context(here, history=[MeasuredTask(task_of(space("two")), there)]))
    found = shares(strategy, here, 1.1 * there * slow, 8, batch=1)
    assert found[0] < 0.2
    assert found[-1] > 0.9
