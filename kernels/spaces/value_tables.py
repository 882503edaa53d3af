"""ValueTables: the derived quantities and constraints of a kernel for one problem, over the values of its parameters.

A quantity that reads two parameters of 15 and 4 values has 60 values, however many configurations there are. They are
computed once, over a grid with an axis for each parameter, and looked up by the value indices of configurations.
Quantities that read so many parameters that a grid would be larger, or whose integers may exceed 64 bits, have no
table: they are evaluated over the configurations themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ExpressionError

from ..arithmetic import magnitude
from ..enumeration import column_of
from ..expression import Expression
from ..kernel import Kernel
from ..row_index import Rows

LARGEST_TABLE = 16384  # cells: computing more costs as much as evaluating a few thousand configurations
MOST_KNOWN = 2000  # results kept for a kernel: about 60 problems, 10 MB
MOST_AXES = 32  # parameters of a kernel; NumPy's arrays have at most 64

Table = tuple[tuple[int, ...], NDArray[Any]]  # the axes of a table, and its values


class Layout(NamedTuple):
    """The axes that each quantity of a kernel reads, and the parameters' values along their axes."""

    sizes: tuple[int, ...]  # number of values of each parameter
    axes: Mapping[str, tuple[int, ...]]  # by name of a parameter or derived quantity; quantities of problems have none
    columns: Mapping[str, tuple[int, NDArray[Any]]]  # by parameter: its axis and its values
    grids: Mapping[str, NDArray[Any]]  # by parameter: its values along its axis; none where there are too many axes
    bounds: Mapping[str, float]  # by parameter: the largest magnitude of its values
    derived: Mapping[str, Expression]
    roots: dict[str, tuple[str, ...]]  # by text of an expression, when asked for: the names of problem and device
    known: dict[tuple[Any, ...], tuple[Any, float]]  # results for values of the roots, and their magnitude

    @classmethod
    def of(cls, kernel: Kernel) -> Layout:
        """The layout of a kernel."""
        sizes = tuple(len(parameter.values) for parameter in kernel.parameters)
        columns = {parameter.name: (axis, column_of(parameter)) for axis, parameter in enumerate(kernel.parameters)}
        axes: dict[str, tuple[int, ...]] = {name: (axis,) for name, (axis, _) in columns.items()}
        grids = {name: column.reshape([-1 if other == axis else 1 for other in range(len(sizes))])
                 for name, (axis, column) in columns.items() if len(sizes) <= MOST_AXES}
        layout = cls(sizes, axes, columns, grids, {name: magnitude(grid) for name, grid in grids.items()},
                     dict(kernel.derived), {}, {})
        for name, expression in kernel.derived:
            axes[name] = layout.read_by(expression)
        return layout

    def read_by(self, expression: Expression) -> tuple[int, ...]:
        """The axes that an expression reads, directly or through derived quantities."""
        return tuple(sorted({axis for name in expression.names for axis in self.axes.get(name, ())}))

    def roots_of(self, expression: Expression, given: Mapping[str, Any]) -> tuple[str, ...]:
        """The names that determine an expression's table: those it reads of `given`, also through quantities."""
        roots = self.roots.get(expression.text)
        if roots is None:
            read = dict.fromkeys(name for used in expression.names for name in (
                (used,) if used in given or used not in self.derived else self.roots_of(self.derived[used], given)))
            roots = self.roots[expression.text] = tuple(name for name in read if name not in self.columns)
        return roots

    def cells(self, axes: tuple[int, ...]) -> int:
        """The number of cells of a grid with these axes; none is infinite."""
        return math.prod(self.sizes[axis] for axis in axes) if len(self.sizes) <= MOST_AXES else LARGEST_TABLE + 1


@lru_cache(maxsize=256)
def layout_of(kernel: Kernel) -> Layout:
    """The layout of a kernel, which is made once."""
    return Layout.of(kernel)


class ValueTables:
    """The tables of one kernel, given the values of the names of problem and device; each is made when it is read."""

    def __init__(self, kernel: Kernel, names: Mapping[str, Any]) -> None:
        self.layout, self._names = layout_of(kernel), names
        self._values: dict[str, Any] = {**names, **self.layout.grids}
        self._bounds: dict[str, float] = dict(self.layout.bounds)
        self._tables: dict[str, Table | None] = {}

    def evaluate(self, expression: Expression) -> Any:
        """The value of an expression over the grid of the axes that it reads; None if there is no table of it."""
        return self._evaluated(expression)[0]

    def _evaluated(self, expression: Expression) -> tuple[Any, float]:
        """The value and its magnitude. Problems with equal values of the names that it reads share it."""
        known = self.layout.known
        key = (expression.text, *[self._names.get(name) for name in self.layout.roots_of(expression, self._names)])
        result = known.get(key)
        if result is None:
            value = self._computed(expression)
            result = self._remember(key, (value, 0.0 if value is None else magnitude(value)))
        return result

    def _remember(self, key: tuple[Any, ...], result: tuple[Any, float]) -> tuple[Any, float]:
        """Keep a result for all problems; other threads may remove it at any time."""
        known = self.layout.known
        if len(known) >= MOST_KNOWN:
            known.clear()
        known[key] = result
        return result

    def _computed(self, expression: Expression) -> Any:
        if self.layout.cells(self.layout.read_by(expression)) > LARGEST_TABLE:
            return None
        for name in expression.names:
            if not self._has(name):
                return None
        try:
            return expression.bounded(self._values, self._bounds)
        except ExpressionError:  # combinations of values that no configuration has: a shift by too much, for example
            return None

    def _has(self, name: str) -> bool:
        """Compute a name's table, if it is a derived quantity; return False if it has none."""
        if name not in self._values and name in self.layout.derived:
            self._values[name], self._bounds[name] = self._evaluated(self.layout.derived[name])
        return name not in self._values or self._values[name] is not None

    def at(self, name: str, indices: Mapping[int, NDArray[np.intp]]) -> Any:
        """The values of a derived quantity for value indices, (row,) by axis: (row,); None if it has no table."""
        if name not in self._tables:
            self._tables[name] = self._compact(name)
        compact = self._tables[name]
        if compact is None:
            return None
        axes, table = compact
        return table[tuple([indices[axis] for axis in axes])] if axes else table.item()

    def _compact(self, name: str) -> Table | None:
        """The table of a derived quantity, without the axes that it does not depend on; None if it has none."""
        if not self._has(name) or name not in self._values:
            return None
        table = np.asarray(self._values[name])
        axes = tuple([axis for axis, size in enumerate(table.shape) if size > 1])
        return axes, table.reshape([table.shape[axis] for axis in axes])


@lru_cache(maxsize=64)
def tables_of(kernel: Kernel, names: tuple[tuple[str, Any], ...]) -> ValueTables:
    """The tables of a kernel, given the names of problem and device that it reads, and their values."""
    return ValueTables(kernel, dict(names))


class _Indices(dict[int, NDArray[np.intp]]):
    """The value indices of rows, by the axis of a parameter: (row,). Each is made when it is first read."""

    def __init__(self, rows: Rows) -> None:
        super().__init__()
        self.rows = rows

    def __missing__(self, axis: int) -> NDArray[np.intp]:
        self[axis] = self.rows[:, axis].astype(np.intp)
        return self[axis]


class RowValues:
    """The values of a kernel's names over rows; `names` are those of problem and device.

    A quantity that has a table in `tables`, which belong to the same names, is looked up; others are evaluated, except
    the `known` ones.
    """

    def __init__(self, kernel: Kernel, names: Mapping[str, Any], rows: Rows, tables: ValueTables | None,
                 known: Mapping[str, NDArray[Any]]) -> None:
        self._layout, self._names, self._tables = layout_of(kernel), names, tables
        self._indices = _Indices(rows)
        self._values: dict[str, Any] = dict(known)

    def column(self, name: str) -> NDArray[Any]:
        """The values of a parameter or derived quantity: (row,)."""
        value, count = self._value(name), len(self._indices.rows)
        if isinstance(value, np.ndarray) and value.shape == (count,):
            return value
        return np.broadcast_to(np.asarray(value), count)

    def _value(self, name: str) -> Any:
        """The value of any name: a column, or one value for all rows."""
        if name not in self._values:
            self._values[name] = self._computed(name)
        return self._values[name]

    def _computed(self, name: str) -> Any:
        axis = self._layout.columns.get(name)
        if axis is not None:
            return axis[1][self._indices[axis[0]]]
        expression = self._layout.derived.get(name)
        if expression is None:
            return self._names.get(name)
        looked_up = None if self._tables is None else self._tables.at(name, self._indices)
        if looked_up is not None:
            return looked_up
        for used in expression.names:
            self._value(used)
        return expression(self._values)
