"""Enumeration: the valid configurations of a kernel, found by progressive filtering.

The parameters are added in decoding order. After each of them, every constraint whose names all have values drops the
rows that break it. The resulting rows are sorted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import KernelError

from .arithmetic import as_column, as_truth
from .kernel import Constraint, Kernel, Parameter
from .row_index import Rows

MOST_WORK = 40_000_000  # cells of grids, counted once for every expression evaluated over them; two seconds
LARGEST_SPACE = 20_000_000  # rows while enumerating; a larger space is refused rather than swapped to disk


def column_of(parameter: Parameter) -> NDArray[Any]:
    """The values of a parameter as a column; in a mix of numbers and words, the numbers stay numbers."""
    return as_column(parameter.values)


def enumerate_rows(kernel: Kernel, names: tuple[tuple[str, Any], ...], largest: int = LARGEST_SPACE) -> Rows:
    """Enumerate the valid configurations, given the values of the names of problem and device that the kernel reads.

    Raises KernelError if there may be more than `largest` partial configurations, or the work exceeds MOST_WORK.
    """
    prefixes = _Prefixes(kernel, dict(names), largest)
    constrained = _constrained(kernel, {name for name, _ in names})
    for number, parameter in enumerate(kernel.parameters):
        prefixes.check_growth(kernel.parameters[number:], constrained[number:])
        prefixes.extend(parameter)
    return prefixes.rows()


def _constrained(kernel: Kernel, bound: set[str]) -> list[bool]:
    """Whether a constraint is evaluated as soon as a parameter has a value, for each parameter."""
    pending, derived = list(kernel.constraints), list(kernel.derived)
    ready = []
    for parameter in kernel.parameters:
        bound = {*bound, parameter.name}
        for name, expression in derived:
            if bound.issuperset(expression.names):
                bound.add(name)
        left = [constraint for constraint in pending if not bound.issuperset(constraint.expression.names)]
        ready.append(len(left) < len(pending))
        pending = left
    return ready


def _spread(values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """The values broadcast to a shape; NumPy's slow function is called only where they do not have it."""
    return values if values.shape == shape else np.broadcast_to(values, shape)


class _Values(NamedTuple):
    """Values over the rows of a level: `values[indices]`, or `values` itself if `indices` is None."""

    level: int
    values: NDArray[Any]
    indices: NDArray[np.int16] | None = None

    def at(self, rows: NDArray[np.intp] | None) -> NDArray[Any]:
        """The values of some rows of the level; None means all rows."""
        if self.indices is None:
            return self.values if rows is None else self.values[rows]
        return self.values[self.indices if rows is None else self.indices[rows]]


class _Prefixes:
    """The valid prefixes of configurations as a tree: each row of a level adds a value to a row of the level above.

    A column is gathered only when an expression reads it; every other column is copied once, at the end. An expression
    is evaluated over a grid (rows of the level above, values of the new parameter). As soon as a constraint drops cells
    of the grid, a list of the remaining cells replaces the grid.
    """

    def __init__(self, kernel: Kernel, names: dict[str, Any], largest: int) -> None:
        self._kernel, self._names, self._largest = kernel, names, largest
        self._columns: dict[str, _Values] = {}
        self._levels: list[tuple[NDArray[np.intp] | None, NDArray[np.int16]]] = []  # parents (None: itself), indices
        resolved = {name for name, _ in kernel.split_derived()[0]}
        self._derived = [item for item in kernel.derived if item[0] not in resolved]
        self._pending = list(kernel.constraints)
        self._work = 0  # cells of grids, each counted for every expression over it
        self._count = int(all(bool(constraint.expression(names)) for constraint in self._bound(set(names))))

    def _bound(self, names: set[str]) -> list[Constraint]:
        """Remove from the pending constraints those that can be evaluated with these names, and return them."""
        ready = [constraint for constraint in self._pending if names.issuperset(constraint.expression.names)]
        self._pending = [constraint for constraint in self._pending
                         if not names.issuperset(constraint.expression.names)]
        return ready

    def check_growth(self, following: Sequence[Parameter], constrained: Sequence[bool]) -> None:
        """Check the number of prefixes up to the next parameter with a constraint, before they are made.

        Raises KernelError if they are too many.
        """
        count = self._count
        for parameter, has_constraint in zip(following, constrained, strict=True):
            count *= len(parameter.values)
            if count > self._largest:
                raise KernelError(f"{self._kernel.name}: more than {self._largest} partial configurations; add "
                                  "constraints")
            if has_constraint:
                break

    def extend(self, parameter: Parameter) -> None:
        """Add the next level. Raises KernelError if all levels together are too much work."""
        values = column_of(parameter)
        grid: tuple[int, ...] = (self._count, len(values))
        bound, derived = {*self._names, *self._columns, parameter.name}, []
        for name, expression in list(self._derived):
            if bound.issuperset(expression.names):
                bound.add(name)
                derived.append((name, expression))
                self._derived.remove((name, expression))
        constraints = self._bound(bound)
        self._work += grid[0] * grid[1] * (1 + len(derived) + len(constraints))
        if self._work > MOST_WORK:
            raise KernelError(f"{self._kernel.name}: finding the valid configurations takes too long; declare the "
                              "parameters first whose constraints exclude most")
        wanted = {name for constraint in constraints for name in constraint.expression.names}
        wanted.update(name for _, expression in derived for name in expression.names)
        columns: dict[str, Any] = {name: column[:, None] for name, column in self._gather(wanted).items()}
        columns[parameter.name] = values[None, :]
        names: dict[str, Any] = {**self._names, **columns}
        for name, expression in derived:
            names[name] = columns[name] = np.asarray(expression(names))
        remaining: tuple[NDArray[np.intp], ...] | None = None  # rows of the level above, and value indices; None: all
        shape = grid
        for number, constraint in enumerate(constraints):
            keep = _spread(as_truth(constraint.expression(names)), shape)
            if keep.all():
                continue
            where = np.nonzero(keep)
            later = {name for following in constraints[number + 1:] for name in following.expression.names}
            later.update(name for name, _ in derived)
            columns = {name: _spread(columns[name], shape)[where] for name in later & set(columns)}
            names = {**self._names, **columns}
            remaining = where if remaining is None else (remaining[0][where], remaining[1][where])
            shape = remaining[0].shape
        if remaining is not None:
            self._levels.append((remaining[0], remaining[1].astype(np.int16)))
        elif grid[1] > 1:
            self._levels.append((np.repeat(np.arange(grid[0]), grid[1]),
                                 np.tile(np.arange(grid[1], dtype=np.int16), grid[0])))
        else:
            self._levels.append((None, np.zeros(grid[0], dtype=np.int16)))
        self._count, level = len(self._levels[-1][1]), len(self._levels)
        self._columns[parameter.name] = _Values(level, values, self._levels[-1][1])
        for name, _ in derived:
            self._columns[name] = _Values(level, _spread(columns[name], shape).ravel())

    def _gather(self, wanted: set[str]) -> dict[str, NDArray[Any]]:
        """The wanted columns over the rows of the last level, by name."""
        columns: dict[str, NDArray[Any]] = {}
        left = {name: self._columns[name] for name in wanted if name in self._columns}
        for level, rows in self._ancestors():
            for name in [name for name, column in left.items() if column.level == level]:
                columns[name] = left.pop(name).at(rows)
            if not left:
                break
        return columns

    def _ancestors(self) -> Iterator[tuple[int, NDArray[np.intp] | None]]:
        """The levels, last to first, each with the index of the row that every row of the last level extends.

        None stands for the indices 0, 1, 2, ...
        """
        rows: NDArray[np.intp] | None = None
        for level in range(len(self._levels), 0, -1):
            yield level, rows
            parents = self._levels[level - 1][0]
            if parents is not None:
                rows = parents if rows is None else parents[rows]

    def rows(self) -> Rows:
        """The complete configurations: one row each, one column per level."""
        table = np.empty((len(self._levels), self._count), dtype=np.int16)  # a parameter's indices are contiguous
        for level, rows in self._ancestors():
            indices = self._levels[level - 1][1]
            table[level - 1] = indices if rows is None else indices[rows]
        return table.T
