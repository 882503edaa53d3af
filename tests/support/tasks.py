"""Tasks of given spaces, and strategies for them."""

from __future__ import annotations

from collections.abc import Sequence

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.tuner.strategies.strategy import SearchContext, Strategy
from seqtune.tuner.strategies.table import strategy_factory


def task_of(*spaces: SearchSpace) -> Task:
    """The task of the spaces of one problem and device."""
    first, *_ = spaces
    return Task(first.problem, first.device, spaces)


def context(spaces: SearchSpace | Sequence[SearchSpace], seed: int = 0, trials: int | None = None,
            history: Sequence[MeasuredTask] = (), seeds: Sequence[Configuration] = ()) -> SearchContext:
    """The context of a search of these spaces."""
    task = task_of(*([spaces] if isinstance(spaces, SearchSpace) else spaces))
    return SearchContext(task, seed, trials, history, seeds)


def make_strategy(name: str, spaces: SearchSpace | Sequence[SearchSpace], seed: int = 0,
                  trials: int | None = None) -> Strategy:
    """The strategy of that name for these spaces."""
    return strategy_factory(name)(context(spaces, seed, trials))
