"""Transfer: times of other devices and problems help where they can, and are ignored as soon as they mislead."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.data.record import Measurement, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Constraint, Kernel, Parameter
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
    """The kernel's space for a problem on the named device."""
    return SearchSpace(KERNEL, problem, Device(f"test:{device}", "test", "paper", "none"))


def times(searched: SearchSpace, threads: float = 4.0) -> NDArray[np.float64]:
    """The seconds of each row, least where log2(a * b) is `threads`, c is m / 16 and d is 1."""
    columns = searched.columns()
    c = np.log2(searched.problem.size("m") / 16)
    return np.asarray(1e-3 * np.exp(0.4 * np.abs(np.log2(columns["a"] * columns["b"]) - threads)
                                    + 0.3 * np.abs(np.log2(columns["c"]) - c) + 0.2 * (columns["d"] == 0)
                                    + 0.01 * np.sin(np.arange(len(searched)))))


def shares(strategy: Portfolio, searched: SearchSpace, seconds: NDArray[np.float64], trials: int,
           batch: int = 4) -> NDArray[np.float64]:
    """The share of the best speed after each trial."""
    seen: list[float] = []
    while len(seen) < trials:
        for configuration in strategy.ask(batch):
            seen.append(float(seconds[searched.row(configuration)]))
            strategy.tell(configuration, Measurement(Status.CORRECT, (seen[-1],)))
    return np.asarray(seconds.min() / np.minimum.accumulate(seen[:trials]))


def test_times_of_another_device_are_looked_up_and_failures_count_as_slow() -> None:
    here, there = space(), space("two")
    seconds = times(there)
    seconds[3], seconds[4] = np.inf, np.nan
    history = sources(task_of(here), [MeasuredTask(task_of(there), seconds)])
    assert history is not None
    assert history.by_source.shape == (len(here), 1)
    assert np.argmin(history.prior) == np.nanargmin(seconds)
    assert history.by_source[3, 0] == history.by_source.max()
    assert np.isfinite(history.by_source).all()
    assert history.fastest == pytest.approx(np.nanmin(seconds))


def test_a_kernel_that_no_other_problem_tried_is_expected_to_be_average() -> None:
    other = Kernel("test.other", "gemm", ("test",), KERNEL.parameters, (), ())
    here, there = space(), space(problem=Problem.make("gemm", m=32, n=64, k=64))
    task = task_of(here, SearchSpace(other, PROBLEM, here.device))
    history = sources(task, [MeasuredTask(task_of(there), times(there))])
    assert history is not None
    tried, untried = history.prior[:len(here)], history.prior[len(here):]
    assert untried == pytest.approx(np.median(tried))
    assert tried.min() < untried.min() < tried.max()


@pytest.mark.parametrize("spaces", [1, 3])
def test_a_history_of_spaces_with_one_configuration_works(spaces: int) -> None:
    """Such configurations differ only in their kernels."""
    here, there = ([SearchSpace(Kernel(f"test.k{number}", "gemm", ("test",), (Parameter("a", (1,)),), (), ()), PROBLEM,
                                space(device).device) for number in range(spaces)] for device in ("one", "two"))
    strategy = Portfolio(context(here, history=[MeasuredTask(task_of(*there), np.linspace(1.0, 2.0, spaces))]))
    proposals = []
    while configurations := strategy.ask(1):
        proposals += configurations
        strategy.tell(configurations[0], Measurement(Status.CORRECT, (1.0,)))
    assert len(set(proposals)) == len(proposals) == spaces


def test_the_same_seed_and_history_give_the_same_proposals() -> None:
    here, there = space(), space("two")
    proposals = []
    for _ in range(2):
        strategy = Portfolio(context(here, 7, history=[MeasuredTask(task_of(there), times(there))]))
        shares(strategy, here, times(here, 2.0), 16)
        proposals.append(strategy.observed)
    assert proposals[0] == proposals[1]


def test_with_a_similar_device_the_first_proposal_is_the_best() -> None:
    here, there = space(), space("two")
    strategy = Portfolio(context(here, history=[MeasuredTask(task_of(there), times(there))]))
    reached = shares(strategy, here, times(here, 4.0) * 3, 10)
    assert reached[0] == 1.0


def test_a_history_of_other_problems_speeds_up_a_search() -> None:
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
def test_a_misleading_history_is_ignored_as_soon_as_the_results_contradict_it(seed: int) -> None:
    here, there = space(), space("two")
    seconds = times(here)
    history = [MeasuredTask(task_of(there), 1e-6 / times(there))]  # the best there is the worst here
    misled = shares(Portfolio(context(here, seed, history=history)), here, seconds, 50)
    alone = shares(Portfolio(context(here, seed)), here, seconds, 50)
    assert misled[-1] > 0.8 * alone[-1]


def test_a_search_leaves_a_region_that_is_slower_than_the_history_predicts() -> None:
    here = space()
    there = times(here)
    slow = np.where(here.columns()["c"] >= 2, 12.0, 1.0)  # the history does not show this
    strategy = Portfolio(context(here, history=[MeasuredTask(task_of(space("two")), there)]))
    reached = shares(strategy, here, 1.1 * there * slow, 8, batch=1)
    assert reached[0] < 0.2
    assert reached[-1] > 0.9


GPU_KERNEL = Kernel(
    "recorded.k", "recorded", ("recorded",),
    (Parameter("block_size_x", (16, 32, 64, 96, 128)), Parameter("tile_size_x", (1, 2, 3, 4)),
     Parameter("a", tuple(range(8)))), (), ())


def gpu_space(name: str) -> SearchSpace:
    """The space of a GPU kernel on a recorded device that the table of accelerators knows by its name."""
    return SearchSpace(GPU_KERNEL, Problem.make("recorded", kernel="k", size_x=4096),
                       Device(f"recorded:{name}", "recorded", "unknown", "none"))


def flat(searched: SearchSpace, lucky: int) -> NDArray[np.float64]:
    """Seconds that are least on a plateau around a = 2, and 5 % below at one configuration among slow ones."""
    columns = searched.columns()
    seconds = 1e-3 * np.exp(0.1 * np.maximum(0, np.abs(columns["a"] - 2) - 1))
    seconds[lucky] = 0.95e-3
    return np.asarray(seconds)


def test_what_only_one_configuration_reached_is_trusted_on_the_same_architecture_alone() -> None:
    there = gpu_space("A6000")
    lucky = there.row(Configuration.of(GPU_KERNEL.name, {"block_size_x": 64, "tile_size_x": 2, "a": 7}))
    first = {}
    for name in ("A4000", "A100"):
        here = sources(task_of(gpu_space(name)), [MeasuredTask(task_of(there), flat(there, lucky))])
        assert here is not None
        first[name] = int(np.argmin(here.prior))
    assert first["A4000"] == lucky
    assert abs(there.columns()["a"][first["A100"]] - 2) <= 1
