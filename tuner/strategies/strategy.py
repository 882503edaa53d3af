"""Strategy: proposes configurations and is told results. One algorithm a file, listed in the table beside.

The tuning loop calls `ask` for a batch, measures it, and calls `tell` once per configuration, in the order measured;
configurations that the journal already holds are told without being measured. `ask` returns an empty list when the
strategy has nothing more to propose; it never proposes the same configuration twice. The same seed and the same told
results give the same proposals. A strategy sees failures (`seconds` is infinite) and must survive a space of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar, overload

from seqtune.data.record import Measurement
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.task import MeasuredTask, Task

Item = TypeVar("Item", covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class SearchContext:
    """Everything that a strategy is made from: the task, and what is known before its search begins.

    `history` and `seeds` may be an `OnDemand`: a strategy that does not read them costs nothing.
    """

    task: Task
    seed: int = 0
    trials: int | None = None  # that the budget allows, where it says so; no strategy is bound to use them
    history: Sequence[MeasuredTask] = ()  # measurements of other devices or other problems
    seeds: Sequence[Configuration] = ()  # configurations to begin with, likeliest first (the predictor's beam)


class OnDemand(Sequence[Item]):
    """A sequence that is computed when it is first read."""

    def __init__(self, compute: Callable[[], Sequence[Item]]) -> None:
        self._compute = compute

    @cached_property
    def _items(self) -> Sequence[Item]:
        return self._compute()

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...

    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        return self._items[index]


class Strategy(Protocol):
    """A search that is going on."""

    def ask(self, count: int) -> list[Configuration]:
        """Up to `count` new configurations; fewer near the end or to learn from first, none when done."""
        ...

    def tell(self, configuration: Configuration, measurement: Measurement) -> None:
        """The result of a configuration that was asked for."""
        ...


class StrategyFactory(Protocol):
    """How a strategy is made: its class, or a function."""

    def __call__(self, context: SearchContext, /) -> Strategy: ...
