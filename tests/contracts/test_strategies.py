"""Contract of every strategy; a new one is tested as soon as the table names it."""

from __future__ import annotations

import pytest

from seqtune.data.record import Measurement, Status
from seqtune.kernels.kernel import Configuration
from seqtune.tuner.strategies.strategy import OnDemand, SearchContext
from seqtune.tuner.strategies.table import STRATEGIES, strategy_factory
from tests.support.bowl import play, spaces
from tests.support.tasks import make_strategy, task_of


@pytest.mark.parametrize("name", STRATEGIES)
class TestStrategy:
    def test_it_proposes_valid_configurations_and_none_twice(self, name: str) -> None:
        searched = spaces(9, 4)
        proposals = play(make_strategy(name, searched, 0), most=60)
        assert len(proposals) == len(set(proposals)) >= 50
        assert all(sum(configuration in space for space in searched) == 1 for configuration in proposals)

    def test_it_ends_when_everything_was_tried(self, name: str) -> None:
        strategy = make_strategy(name, spaces(9), 0)
        assert len(play(strategy)) == 45
        assert strategy.ask(4) == []

    def test_the_same_seed_and_results_give_the_same_proposals(self, name: str) -> None:
        first, second, other = (play(make_strategy(name, spaces(9, 4), seed)) for seed in (1, 1, 2))
        assert first == second
        assert first != other

    def test_it_reads_the_seeds_of_its_context_only_where_the_table_says_so(self, name: str) -> None:
        reads: list[int] = []

        def seeds() -> list[Configuration]:
            reads.append(1)
            return [space[7]]

        (space,) = spaces(9)
        strategy = strategy_factory(name)(SearchContext(task_of(space), seeds=OnDemand(seeds)))
        first = strategy.ask(1)
        assert bool(reads) == (STRATEGIES[name].seeds != "ignored")
        assert len(reads) <= 1
        assert not reads or first == [space[7]]

    def test_it_works_for_a_space_with_one_configuration(self, name: str) -> None:
        strategy = make_strategy(name, spaces(1), 0)
        assert len(play(strategy)) == 1

    def test_it_works_if_every_configuration_fails(self, name: str) -> None:
        strategy = make_strategy(name, spaces(4), 0)
        count = 0
        while configurations := strategy.ask(3):
            for configuration in configurations:
                strategy.tell(configuration, Measurement(Status.COMPILE))
                count += 1
        assert count == 10
