"""RowValues: parameters and derived quantities over some rows of a space, each computed when it is first read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernel import Kernel
from ..row_index import Rows
from .value_tables import ValueTables, layout_of


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
