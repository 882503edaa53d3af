"""The behaviour of each strategy; `tests/contracts/test_strategies.py` tests what all have in common."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.data.record import Measurement, Status
from seqtune.errors import MisuseError
from seqtune.kernels.kernel import Configuration, Constraint, Kernel, Parameter
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.strategies.droplet import SeededDroplet
from seqtune.tuner.strategies.local import Local
from seqtune.tuner.strategies.portfolio import Portfolio
from seqtune.tuner.strategies.strategy import Strategy
from seqtune.tuner.strategies.table import strategy_factory
from tests.support.bowl import DEVICE, PROBLEM, play, seconds, spaces
from tests.support.tasks import context, make_strategy, task_of


def neighbours(space: SearchSpace, configuration: Configuration) -> set[Configuration]:
    """The configurations that differ in one parameter."""
    return {space[number] for number in task_of(space).neighbours(space.row(configuration)).numbers.tolist()}


@pytest.mark.parametrize("name", ["exhaustive", "random"])
def test_without_a_budget_every_configuration_is_proposed(name: str) -> None:
    searched = spaces(9, 4)
    everything = {configuration for space in searched for configuration in space}
    assert set(play(make_strategy(name, searched, 5))) == everything


@pytest.mark.parametrize("seed", range(5))
def test_local_search_climbs_to_the_best_with_few_trials(seed: int) -> None:
    strategy = Local(context(spaces(12), seed, 10))
    proposals: list[Configuration] = []
    while configurations := strategy.ask(4):
        for configuration in configurations:
            proposals.append(configuration)
            strategy.tell(configuration, Measurement(Status.CORRECT, (seconds(configuration),)))
    best = min(proposals, key=seconds)
    assert (best["x"], best["y"]) == (3, 2)
    assert len(proposals) < 78
    (space,) = spaces(12)
    assert (neighbours(space, best)) <= set(proposals)  # no neighbour is left


def test_local_search_spends_half_of_a_small_budget_on_the_climb() -> None:
    (space,) = spaces(12)
    proposals = play(make_strategy("local", space, 3, 20), most=20)
    assert proposals[:10] == play(make_strategy("random", space, 3, 20), most=10)[:10]
    correct = [configuration for index, configuration in enumerate(proposals[:10]) if index != 6]  # the seventh failed
    best = min(correct, key=seconds)
    assert proposals[10] in neighbours(space, best)
    assert seconds(best) == 1e-3 or min(proposals, key=seconds) not in proposals[:10]  # unless chance found the best


@pytest.mark.parametrize("trials", [1, 2, 40, 78, 500])
def test_local_search_uses_the_whole_budget_even_where_the_climb_ends_early_or_nothing_is_correct(trials: int) -> None:
    (space,) = spaces(12)
    assert len(play(make_strategy("local", space, 3, trials), batch=1, most=trials)) == min(trials, len(space))
    strategy = make_strategy("local", space, 3, trials)
    count = 0
    while configurations := strategy.ask(1):
        strategy.tell(configurations[0], Measurement(Status.CRASH))
        count += 1
    assert count == min(trials, len(space))


LANDSCAPE = Kernel(
    "test.landscape", "gemm", ("test",),
    (Parameter("block", (1, 2, 4, 8, 16, 32, 64)), Parameter("tile", (1, 2, 3, 4, 6, 8)), Parameter("unroll", (0, 1)),
     Parameter("order", ("rows", "columns", "blocks")), Parameter("vector", (1, 2, 4, 8))),
    (Constraint.of("block * tile <= 128", "too large"),), (("block", 1),))


def landscape() -> tuple[SearchSpace, NDArray[np.float64]]:
    """A space of 744 configurations with interactions and a corner that fails, and the seconds of each."""
    space = SearchSpace(LANDSCAPE, PROBLEM, DEVICE)
    columns = space.columns()
    threads = np.log2(columns["block"] * columns["tile"])
    slow = (0.3 * (threads - 5) ** 2 + 0.4 * (columns["order"] != "blocks") + 0.3 * (columns["unroll"] == 0)
            + 0.2 * np.abs(np.log2(columns["vector"]) - 2) * (columns["tile"] > 2)
            + 0.1 * np.abs(np.log2(columns["block"]) - 3))
    return space, np.where((columns["vector"] == 8) & (columns["unroll"] == 1), np.inf, 1e-3 * np.exp(slow))


def share(strategy: Strategy, space: SearchSpace, times: NDArray[np.float64], trials: int) -> float:
    """The share of the best speed that a search reaches in `trials` trials."""
    reached: list[float] = []
    while len(reached) < trials:
        for configuration in strategy.ask(min(8, trials - len(reached))):
            time = float(times[space.row(configuration)])
            reached.append(time)
            strategy.tell(configuration, Measurement(Status.CORRECT, (time,)) if np.isfinite(time)
                          else Measurement(Status.RUNTIME))
    return float(times.min() / min(reached))


def chance(times: NDArray[np.float64], trials: int) -> float:
    """The exact mean share of the best speed that random search reaches, over all draws without replacement."""
    shares, count = times.min() / np.sort(times), len(times)
    least_is = [math.comb(count - rank - 1, trials - 1) / math.comb(count, trials) for rank in range(count)]
    return float(shares @ np.array(least_is))


@pytest.mark.parametrize("name", ["portfolio", "autotvm", "droplet", "evolutionary", "annealing"])
def test_it_beats_random_search_where_there_is_something_to_learn(name: str) -> None:
    space, times = landscape()
    reached = [share(make_strategy(name, space, seed, 60), space, times, 60) for seed in range(8)]
    assert float(np.mean(reached)) > chance(times, 60)


def test_failures_are_learned_and_avoided() -> None:
    space, times = landscape()
    strategy = Portfolio(context(space))
    share(strategy, space, times, 80)
    late = times[strategy.observed[20:]]
    assert np.isinf(late).mean() < 0.5 * np.isinf(times).mean()


def test_seeds_come_first_and_unknown_ones_are_left_out() -> None:
    (space,) = spaces(12)
    seeds = [space[7], Configuration.of("test.other", {"x": 1}), space[3], space[7]]
    for factory in (Portfolio, SeededDroplet):
        strategy = factory(context(space, seeds=seeds))
        assert strategy.ask(5) == [space[7], space[3]]


def test_a_droplet_descends_from_the_best_of_its_exploration_and_then_explores_again() -> None:
    (space,) = spaces(12)
    seeds = [space[row] for row in (0, 40)]
    strategy = SeededDroplet(context(space, seeds=seeds))
    proposals = play(strategy, batch=2, most=70)
    best = min(seeds, key=seconds)
    assert set(proposals[2:4]) <= (neighbours(space, best))
    assert min(proposals[:40], key=seconds).settings == (("x", 3), ("y", 2))


def test_an_unknown_strategy_is_refused_with_a_list() -> None:
    with pytest.raises(MisuseError, match=r"no strategy 'magic'; there are portfolio, predictor, .*, exhaustive"):
        strategy_factory("magic")


def test_renaming_and_reordering_the_parameters_changes_a_search_by_no_more_than_chance() -> None:
    space, times = landscape()
    kernel = Kernel(
        "test.renamed", "gemm", ("test",),
        tuple(Parameter(f"p{index}", parameter.values) for index, parameter in enumerate(LANDSCAPE.parameters))[::-1],
        (Constraint.of("p0 * p1 <= 128", "too large"),), (("p0", 1),))
    other = SearchSpace(kernel, PROBLEM, DEVICE)
    names = {parameter.name: f"p{index}" for index, parameter in enumerate(LANDSCAPE.parameters)}
    moved = np.empty_like(times)
    for row, configuration in enumerate(space):
        moved[other.row(Configuration.of(kernel.name, {names[name]: value for name, value in configuration.settings}))
              ] = times[row]
    plain, renamed = (
        np.array([1 - share(Portfolio(context(searched, seed)), searched, seconds, 30) for seed in range(12)])
        for searched, seconds in ((space, times), (other, moved)))
    error = np.hypot(plain.std(ddof=1), renamed.std(ddof=1)) / np.sqrt(len(plain))
    assert abs(plain.mean() - renamed.mean()) < 2.5 * error + 0.01
