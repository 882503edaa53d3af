"""The contract of every strategy, and what each adds."""

from __future__ import annotations

import pytest

from seqtune.data.record import Measurement, Status
from seqtune.errors import MisuseError
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration, Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.strategies.local import Local
from seqtune.tuner.strategy import STRATEGIES, Strategy
from seqtune.tuner.tune import strategy_factory

DEVICE = Device("test:1", "test", "paper", "none")
PROBLEM = Problem.make("gemm", m=3, n=4, k=5)


def spaces(*sizes: int) -> list[SearchSpace]:
    """One per size: a grid x, y with x + y < size."""
    values = tuple(range(12))
    return [SearchSpace(Kernel(f"test.k{size}", "gemm", ("test",), (Parameter("x", values), Parameter("y", values)),
                               (Constraint.of(f"x + y < {size}", "too far out"),), (("x", 0), ("y", 0))),
                        PROBLEM, DEVICE) for size in sizes]


def seconds(configuration: Configuration) -> float:
    """A bowl with its best at (3, 2)."""
    return 1e-3 + 1e-4 * ((configuration.number("x") - 3) ** 2 + (configuration.number("y") - 2) ** 2)


def play(strategy: Strategy, batch: int = 4, most: int = 10_000) -> list[Configuration]:
    """All that it asks for, with every seventh trial failing."""
    asked: list[Configuration] = []
    while len(asked) < most and (configurations := strategy.ask(batch)):
        assert len(configurations) <= batch
        for configuration in configurations:
            asked.append(configuration)
            strategy.tell(configuration, Measurement(Status.CRASH) if len(asked) % 7 == 0
                          else Measurement(Status.CORRECT, (seconds(configuration),)))
    return asked


@pytest.mark.parametrize("name", STRATEGIES)
class TestContract:
    def test_it_never_proposes_twice_and_only_what_is_valid(self, name: str) -> None:
        union = spaces(9, 4)
        asked = play(strategy_factory(name)(union, 0), most=60)
        assert len(asked) == len(set(asked)) >= 50
        assert all(sum(one in space for space in union) == 1 for one in asked)

    def test_it_ends(self, name: str) -> None:
        strategy = strategy_factory(name)(spaces(9), 0)
        assert len(play(strategy)) <= 45
        assert strategy.ask(4) == []

    def test_the_same_seed_and_results_give_the_same_proposals(self, name: str) -> None:
        first, second, other = (play(strategy_factory(name)(spaces(9, 4), seed)) for seed in (1, 1, 2))
        assert first == second
        assert first != other

    def test_it_survives_a_space_of_one(self, name: str) -> None:
        strategy = strategy_factory(name)(spaces(1), 0)
        assert len(play(strategy)) == 1

    def test_it_survives_failures_alone(self, name: str) -> None:
        strategy = strategy_factory(name)(spaces(4), 0)
        count = 0
        while configurations := strategy.ask(3):
            for configuration in configurations:
                strategy.tell(configuration, Measurement(Status.COMPILE))
                count += 1
        assert count == 10


@pytest.mark.parametrize("name", ["exhaustive", "random"])
def test_without_a_budget_every_configuration_is_proposed(name: str) -> None:
    union = spaces(9, 4)
    assert set(play(strategy_factory(name)(union, 5))) == {one for space in union for one in space}


@pytest.mark.parametrize("seed", range(5))
def test_local_search_climbs_to_the_best_with_few_trials(seed: int) -> None:
    strategy = Local(spaces(12), seed, trials=10)
    asked: list[Configuration] = []
    while configurations := strategy.ask(4):
        for configuration in configurations:
            asked.append(configuration)
            strategy.tell(configuration, Measurement(Status.CORRECT, (seconds(configuration),)))
    best = min(asked, key=seconds)
    assert (best["x"], best["y"]) == (3, 2)
    assert len(asked) < 78
    (space,) = spaces(12)
    assert set(space.neighbours(best)) <= set(asked)  # it ran dry


def test_local_search_spends_half_of_a_small_budget_on_the_climb() -> None:
    (space,) = spaces(12)
    asked = play(strategy_factory("local")([space], 3, 20), most=20)
    assert asked[:10] == play(strategy_factory("random")([space], 3, 20), most=10)[:10]
    best = min((one for number, one in enumerate(asked[:10]) if number != 6), key=seconds)  # the seventh failed
    assert asked[10] in space.neighbours(best)
    assert min(asked, key=seconds) not in asked[:10]


@pytest.mark.parametrize("trials", [1, 2, 40, 78, 500])
def test_local_search_uses_the_whole_budget_even_where_the_climb_ends_early_or_nothing_is_correct(trials: int) -> None:
    (space,) = spaces(12)
    assert len(play(strategy_factory("local")([space], 3, trials), batch=1, most=trials)) == min(trials, len(space))
    strategy = strategy_factory("local")([space], 3, trials)
    count = 0
    while configurations := strategy.ask(1):
        strategy.tell(configurations[0], Measurement(Status.CRASH))
        count += 1
    assert count == min(trials, len(space))


def test_an_unknown_strategy_is_refused_with_a_list() -> None:
    with pytest.raises(MisuseError, match="no strategy 'annealing'; there are exhaustive, random, local"):
        strategy_factory("annealing")
