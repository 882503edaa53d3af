"""Enumeration: the valid configurations of a kernel, found by progressive filtering.

One parameter after the other is added, in decoding order; with each of them every constraint whose names are all known
drops rows. Rows come out sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import KernelError

from .kernel import Constraint, Kernel, Parameter

LARGEST_SPACE = 20_000_000  # rows while enumerating; a larger space is refused rather than swapped to disk
Rows = NDArray[np.int16]  # (configuration, parameter): places in Parameter.values


def column_of(parameter: Parameter) -> NDArray[Any]:
    """The values as a column; numbers beside words stay what they are."""
    words = sum(isinstance(value, str) for value in parameter.values)
    return np.asarray(parameter.values, dtype=object if 0 < words < len(parameter.values) else None)


@lru_cache(maxsize=512)
def enumerate_rows(kernel: Kernel, seen: tuple[tuple[str, Any], ...]) -> Rows:
    prefixes = _Prefixes(kernel, dict(seen))
    for parameter in kernel.parameters:
        prefixes.extend(parameter)
    rows = prefixes.rows()
    rows.setflags(write=False)
    return rows


class _Values(NamedTuple):
    """Values over the rows of a level: `values[places]`, or the values themselves."""

    level: int
    values: NDArray[Any]
    places: NDArray[np.int16] | None = None

    def at(self, rows: NDArray[np.intp] | None) -> NDArray[Any]:
        """Over some rows of its level, or all."""
        if self.places is None:
            return self.values if rows is None else self.values[rows]
        return self.values[self.places if rows is None else self.places[rows]]


class _Prefixes:
    """The valid beginnings of configurations as a tree: a row of a level extends a row of the level before by a value.

    Columns are gathered when an expression asks for them, so that what nothing asks for is copied once, at the end.
    An expression is evaluated over (rows of the level before, values of the new parameter), and the first one that
    drops any of these leaves a list of those that stay.
    """

    def __init__(self, kernel: Kernel, names: dict[str, Any]) -> None:
        self._kernel, self._names = kernel, names
        self._columns: dict[str, _Values] = {}
        self._levels: list[tuple[NDArray[np.intp] | None, NDArray[np.int16]]] = []  # parents (None: itself), places
        settled = {name for name, _ in kernel.split_derived()[0]}
        self._derived = [item for item in kernel.derived if item[0] not in settled]
        self._pending = list(kernel.constraints)
        self._count = int(all(bool(constraint.expression(names)) for constraint in self._bound(set(names))))

    def _bound(self, names: set[str]) -> list[Constraint]:
        """Takes the constraints that can be evaluated from what is pending."""
        found = [one for one in self._pending if names.issuperset(one.expression.names)]
        self._pending = [one for one in self._pending if not names.issuperset(one.expression.names)]
        return found

    def extend(self, parameter: Parameter) -> None:
        """The next level. Raises KernelError where it may become too large."""
        values = column_of(parameter)
        grid: tuple[int, ...] = (self._count, len(values))
        if grid[0] * grid[1] > LARGEST_SPACE:
            raise KernelError(f"{self._kernel.name}: more than {LARGEST_SPACE} partial configurations; add constraints")
        bound, derived = {*self._names, *self._columns, parameter.name}, []
        for name, expression in list(self._derived):
            if bound.issuperset(expression.names):
                bound.add(name)
                derived.append((name, expression))
                self._derived.remove((name, expression))
        constraints = self._bound(bound)
        wanted = {name for one in constraints for name in one.expression.names}
        wanted.update(name for _, expression in derived for name in expression.names)
        columns: dict[str, Any] = {name: column[:, None] for name, column in self._gather(wanted).items()}
        columns[parameter.name] = values[None, :]
        for name, expression in derived:
            columns[name] = np.asarray(expression({**self._names, **columns}))
        kept: tuple[NDArray[np.intp], ...] | None = None  # rows of the level before, and places; None: all
        shape = grid
        for number, constraint in enumerate(constraints):
            keep = np.broadcast_to(np.asarray(constraint.expression({**self._names, **columns}), dtype=bool), shape)
            if keep.all():
                continue
            where = np.nonzero(keep)
            later = {name for one in constraints[number + 1:] for name in one.expression.names}
            later.update(name for name, _ in derived)
            columns = {name: np.broadcast_to(columns[name], shape)[where] for name in later & set(columns)}
            kept = where if kept is None else (kept[0][where], kept[1][where])
            shape = kept[0].shape
        if kept is not None:
            self._levels.append((kept[0], kept[1].astype(np.int16)))
        elif grid[1] > 1:
            self._levels.append((np.repeat(np.arange(grid[0]), grid[1]),
                                 np.tile(np.arange(grid[1], dtype=np.int16), grid[0])))
        else:
            self._levels.append((None, np.zeros(grid[0], dtype=np.int16)))
        self._count, level = len(self._levels[-1][1]), len(self._levels)
        self._columns[parameter.name] = _Values(level, values, self._levels[-1][1])
        for name, _ in derived:
            self._columns[name] = _Values(level, np.broadcast_to(columns[name], shape).ravel())

    def _gather(self, wanted: set[str]) -> dict[str, NDArray[Any]]:
        """Columns over the rows of the last level."""
        found: dict[str, NDArray[Any]] = {}
        left = {name: self._columns[name] for name in wanted if name in self._columns}
        for level, rows in self._ancestors():
            for name in [name for name, column in left.items() if column.level == level]:
                found[name] = left.pop(name).at(rows)
            if not left:
                break
        return found

    def _ancestors(self) -> Iterator[tuple[int, NDArray[np.intp] | None]]:
        """Levels, last one first, and which of their rows those of the last one come from (None: the same)."""
        rows: NDArray[np.intp] | None = None
        for level in range(len(self._levels), 0, -1):
            yield level, rows
            parents = self._levels[level - 1][0]
            if parents is not None:
                rows = parents if rows is None else parents[rows]

    def rows(self) -> Rows:
        """All levels as rows."""
        found = np.empty((len(self._levels), self._count), dtype=np.int16)  # a parameter's places lie side by side
        for level, rows in self._ancestors():
            places = self._levels[level - 1][1]
            found[level - 1] = places if rows is None else places[rows]
        return found.T
