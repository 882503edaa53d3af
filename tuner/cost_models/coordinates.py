"""Coordinates: configurations as integer vectors for the Gaussian process, one axis for each quantity that may matter.

An axis divides the values of its quantity into levels: the distinct values in ascending order, or bins where there are
many. Its correlation matrix decays with the distance for numbers and is the identity for words. A numeric parameter has
a second axis: how often two divides it. Every axis has a last level, "absent", for configurations of kernels without
the quantity.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, Task

from .quantities import columns, products

LevelIndices = NDArray[np.int16]  # (configuration, axis)

MAX_LEVELS = 24  # of one axis
MAX_PAIRS = 10  # products of two parameters; more of them only blur the axes of the parameters themselves
CORRELATION_LENGTH = 0.7  # share of an axis over which the correlation falls to 1/e
SAMPLE = 20_000  # configurations from which the axes are made: all of most spaces


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """One quantity, divided into levels."""

    space: int | None  # index of the space to which it belongs; None: all
    name: str
    computed: bool  # computed from other quantities, not a parameter
    cuts: Floats  # boundaries between the levels, ascending
    correlation: Floats  # (level, level), 1 on the diagonal

    @classmethod
    def of(cls, space: int | None, name: str, values: Floats, ordered: bool = True, computed: bool = True) -> Axis:
        """Make an axis from a sample of values.

        Missing values (nan) have the last level, which does not correlate with any other.
        """
        centres = np.unique(values[~np.isnan(values)])
        if ordered and len(centres) > MAX_LEVELS:
            cuts = np.unique(np.quantile(values[~np.isnan(values)], np.linspace(0, 1, MAX_LEVELS + 1)[1:-1]))
            level = np.searchsorted(cuts, centres)
            centres = np.array([centres[level == index].mean() for index in np.unique(level)])
        cuts = (centres[1:] + centres[:-1]) / 2
        correlation = np.eye(len(centres) + 1)
        if ordered and len(centres) > 1:
            by_rank = _normalized(np.arange(len(centres)))
            by_value = _normalized(np.log(centres) if centres.min() > 0 else centres)
            position = (by_rank + by_value) / 2
            correlation[:-1, :-1] = np.exp(-np.abs(position[:, None] - position) / CORRELATION_LENGTH)
        return cls(space, name, computed, cuts, correlation)

    def levels(self, values: Floats) -> NDArray[np.int16]:
        """The level of each value."""
        indices = np.searchsorted(self.cuts, values)
        return np.where(np.isnan(values), len(self.correlation) - 1, indices).astype(np.int16)


def _normalized(values: NDArray[np.floating] | NDArray[np.integer]) -> Floats:
    """Map values linearly onto 0..1."""
    return np.asarray((values - values.min()) / (values.max() - values.min()))


def _twos(values: Floats) -> Floats:
    """The number of times that 2 divides each value; 0 for values that are not positive, and for fractions."""
    whole = np.where((values > 0) & (values % 1 == 0), values, 1).astype(np.int64)
    return np.asarray(np.log2(whole & -whole))


class Coordinates:
    """The axes of a task, and the level indices of its configurations on them.

    `others` are further quantities: arrays with a value for every number of the task.
    """

    def __init__(self, task: Task, generator: np.random.Generator, others: Iterable[Floats] = ()) -> None:
        self.task = task
        self.axes: list[Axis] = []
        self._others = list(others)
        seen: set[bytes] = set()
        for index, space in enumerate(task.spaces):
            rows = np.arange(len(space)) if len(space) <= SAMPLE else generator.choice(len(space), SAMPLE, False)
            for name, values in self._quantities(index, rows).items():
                parameter = space.kernel.by_name.get(name)
                ordered = parameter is None or parameter.is_numeric
                self._add(Axis.of(index, name, values, ordered, computed=parameter is None), values, seen)
        for position, values in enumerate(self._others):
            self._add(Axis.of(None, str(position), values), values, seen)

    def _add(self, axis: Axis, values: Floats, seen: set[bytes]) -> None:
        """Add an axis unless it is constant or gives the same levels as an earlier one."""
        levels = axis.levels(values)
        mark = levels.tobytes()
        if levels.min() < levels.max() and mark not in seen:
            seen.add(mark)
            self.axes.append(axis)

    def _quantities(self, index: int, rows: Numbers) -> dict[str, Floats]:
        """The quantities of rows of the space with that index, by name."""
        space = self.task.spaces[index]
        numbers = columns(space, rows)
        pairs = products(space, numbers)
        if len(pairs) <= MAX_PAIRS:
            numbers |= pairs
        numeric = [parameter.name for parameter in space.kernel.parameters if parameter.is_numeric]
        return numbers | {f"twos in {name}": _twos(numbers[name]) for name in numeric}

    def of(self, numbers: Numbers) -> LevelIndices:
        """The level indices of the configurations with these numbers: (configuration, axis)."""
        levels = np.empty((len(numbers), len(self.axes)), np.int16)
        for column, axis in enumerate(self.axes):
            levels[:, column] = len(axis.correlation) - 1  # absent
            if axis.space is None:
                levels[:, column] = axis.levels(self._others[int(axis.name)][numbers])
        for index, (_, part) in enumerate(self.task.parts()):
            chosen = np.flatnonzero((numbers >= part.start) & (numbers < part.stop))
            if len(chosen):
                values = self._quantities(index, numbers[chosen] - part.start)
                for column, axis in enumerate(self.axes):
                    if axis.space == index:
                        levels[chosen, column] = axis.levels(values[axis.name])
        return levels
