"""Levels: configurations as places on a few short scales, one scale for each quantity that may matter.

A scale has the quantity's values in ascending order (or bins, where there are many), and says how alike two places are:
less with every step for numbers, not at all for words. Beside its size, a number has a second scale: how often two
divides it. What means nothing to a kernel is absent for its configurations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, Task

from .features import columns, products

Places = NDArray[np.int16]  # (configuration, scale)

MOST_LEVELS = 24  # of one scale
MOST_PAIRS = 10  # products of two parameters; more only blur what each means
REACH = 0.7  # the share of a scale over which likeness falls to 1/e
SAMPLE = 20_000  # configurations that scales are made from; all of most spaces


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """One quantity. `cuts` part the values into levels; `alike` is (level, level), 1 on the diagonal."""

    space: int | None  # index of the space that it belongs to; None: all
    name: str
    computed: bool  # from other quantities, rather than a parameter
    cuts: Floats
    alike: Floats

    @classmethod
    def of(cls, space: int | None, name: str, values: Floats, ordered: bool = True, computed: bool = True) -> Scale:
        """From a sample of its values; those not known belong to the last level, which is like no other."""
        found = np.unique(values[~np.isnan(values)])
        if ordered and len(found) > MOST_LEVELS:
            cuts = np.unique(np.quantile(values[~np.isnan(values)], np.linspace(0, 1, MOST_LEVELS + 1)[1:-1]))
            level = np.searchsorted(cuts, found)
            found = np.array([found[level == one].mean() for one in np.unique(level)])
        cuts = (found[1:] + found[:-1]) / 2
        alike = np.eye(len(found) + 1)
        if ordered and len(found) > 1:
            place = (_evenly(np.arange(len(found))) + _evenly(np.log(found) if found.min() > 0 else found)) / 2
            alike[:-1, :-1] = np.exp(-np.abs(place[:, None] - place) / REACH)
        return cls(space, name, computed, cuts, alike)

    def levels(self, values: Floats) -> Places:
        """The level of each value."""
        found = np.searchsorted(self.cuts, values)
        return np.where(np.isnan(values), len(self.alike) - 1, found).astype(np.int16)


def _evenly(values: NDArray[np.floating] | NDArray[np.integer]) -> Floats:
    """From 0 to 1."""
    return np.asarray((values - values.min()) / (values.max() - values.min()))


def _twos(values: Floats) -> Floats:
    """How often 2 divides each value; 0 where it is not positive."""
    whole = np.where(values > 0, values, 1).astype(np.int64)
    return np.asarray(np.log2(whole & -whole))


class Levels:
    """The scales of a task, and where its configurations stand on them.

    `others` are further quantities: a value for every number of the task.
    """

    def __init__(self, task: Task, generator: np.random.Generator, others: Iterable[Floats] = ()) -> None:
        self.task = task
        self.scales: list[Scale] = []
        self._others = list(others)
        seen: set[bytes] = set()
        for place, space in enumerate(task.spaces):
            rows = np.arange(len(space)) if len(space) <= SAMPLE else generator.choice(len(space), SAMPLE, False)
            for name, values in self._quantities(place, rows).items():
                parameter = space.kernel.by_name.get(name)
                ordered = parameter is None or parameter.is_numeric
                self._add(Scale.of(place, name, values, ordered, computed=parameter is None), values, seen)
        for number, values in enumerate(self._others):
            self._add(Scale.of(None, str(number), values), values, seen)

    def _add(self, scale: Scale, values: Floats, seen: set[bytes]) -> None:
        """Unless it is constant, or says what another says."""
        levels = scale.levels(values)
        mark = levels.tobytes()
        if levels.min() < levels.max() and mark not in seen:
            seen.add(mark)
            self.scales.append(scale)

    def _quantities(self, place: int, rows: Numbers) -> dict[str, Floats]:
        space = self.task.spaces[place]
        found = columns(space, rows)
        pairs = products(space, found)
        if len(pairs) <= MOST_PAIRS:
            found |= pairs
        numeric = [one.name for one in space.kernel.parameters if one.is_numeric]
        return found | {f"twos in {name}": _twos(found[name]) for name in numeric}

    def of(self, numbers: Numbers) -> Places:
        """(configuration, scale)"""
        found = np.empty((len(numbers), len(self.scales)), np.int16)
        for column, scale in enumerate(self.scales):
            found[:, column] = len(scale.alike) - 1  # absent
            if scale.space is None:
                found[:, column] = scale.levels(self._others[int(scale.name)][numbers])
        for index, (_, part) in enumerate(self.task.parts()):
            chosen = np.flatnonzero((numbers >= part.start) & (numbers < part.stop))
            if len(chosen):
                values = self._quantities(index, numbers[chosen] - part.start)
                for column, scale in enumerate(self.scales):
                    if scale.space == index:
                        found[chosen, column] = scale.levels(values[scale.name])
        return found
