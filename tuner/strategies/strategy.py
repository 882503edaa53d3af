"""Strategy: proposes configurations (`ask`) and gets their results (`tell`). Each algorithm has a file here.

The tuning loop calls `ask` for a batch, measures it, and calls `tell` once for each configuration, in the order of the
measurements. Configurations that the journal already holds are passed to `tell` without being measured. `ask` returns
an empty list when the strategy has nothing more to propose; it never proposes a configuration twice. The same seed and
the same results give the same proposals. A strategy also gets failures (`seconds` is infinite), and must work for a
space with one configuration. The file `table.py` lists the strategies.
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
    """Everything that a strategy is made from: the task, and the information available before its search begins.

    `history`, `seeds` and `slowness` may be an `OnDemand`, which is not computed for a strategy that does not read it.
    """

    task: Task
    seed: int = 0
    trials: int | None = None  # the budget, None if it does not limit trials; the strategy may propose fewer
    history: Sequence[MeasuredTask] = ()  # measurements of other devices or other problems
    seeds: Sequence[Configuration] = ()  # configurations to propose first, likeliest first (the predictor's proposals)
    slowness: Sequence[float] = ()  # the log(time / best time) that the predictor expects, by number; empty: unknown


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
    """A running search."""

    def ask(self, count: int) -> list[Configuration]:
        """Propose up to `count` new configurations; fewer if the strategy needs results first, none when it is done."""
        ...

    def tell(self, configuration: Configuration, measurement: Measurement) -> None:
        """Pass the result of a configuration that was proposed."""
        ...


class StrategyFactory(Protocol):
    """Makes a strategy from its context: the strategy's class, or a function."""

    def __call__(self, context: SearchContext, /) -> Strategy: ...
