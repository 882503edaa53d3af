"""Skeleton: the configurations of a kernel that are valid for some problem on a device, as a tree of prefixes.

The tree is made once for a kernel and a device. A problem then only removes branches: the constraints that depend on
the problem are tables over a few parameters' values (`seqtune.kernels.spaces.value_tables`), looked up by prefix.
`valid_rows` is how every space gets its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ExpressionError, KernelError

from ..arithmetic import as_truth
from ..enumeration import enumerate_rows
from ..expression import Expression
from ..kernel import Kernel
from ..row_index import Numbers, PrefixBorders, Rows
from .row_cache import Names, RowCache, ValidRows
from .value_tables import LARGEST_TABLE, Layout, ValueTables, layout_of, tables_of

LARGEST_GRID = 2_000_000  # prefixes during the enumeration, a tenth of a second
LARGEST_JOINED = 4096  # cells of a table that several constraints share
LARGEST_SKELETON = 400_000  # configurations; 40 MB. A larger kernel's spaces are enumerated one by one

_KEPT = RowCache()  # of this process


@dataclass(frozen=True, eq=False)
class _Group:
    """Constraints that share a table, looked up at the level of the last parameter that they read."""

    axes: tuple[int, ...]
    expressions: tuple[Expression, ...]

    def table(self, tables: ValueTables) -> NDArray[np.bool_] | None:
        """Whether all constraints hold, for each cell of the grid of the axes; None if one has no table."""
        holds: Any = True
        for expression in self.expressions:
            value = tables.evaluate(expression)
            if value is None:
                return None
            holds = holds & as_truth(value)
        shape = [size if axis in self.axes else 1 for axis, size in enumerate(tables.layout.sizes)]
        return np.broadcast_to(holds, shape).ravel()


class _Level(NamedTuple):
    """The prefixes that end with one parameter, in order."""

    first: Numbers  # (prefix of the level before + 1,): the first prefix that continues it; then the number of prefixes
    groups: list[tuple[_Group, NDArray[np.int32]]]  # with the cell of each prefix in the group's table


class Skeleton:
    """The tree of one kernel on one device."""

    def __init__(self, kernel: Kernel, rows: Rows, dependent: Sequence[Expression]) -> None:
        layout = layout_of(kernel)
        self._kernel, self._levels = kernel, _levels(layout, rows, dependent)
        self._free = [expression for expression in dependent if not layout.read_by(expression)]
        self._table = np.ascontiguousarray(rows.T)  # (parameter, configuration)

    @classmethod
    def of(cls, kernel: Kernel, fixed: Names) -> Skeleton | None:
        """Make the skeleton, given the names that depend only on the device; None if it would be too large."""
        reduced, dependent = _reduced(kernel, {name for name, _ in fixed})
        layout = layout_of(kernel)
        if any(layout.cells(layout.read_by(expression)) > LARGEST_TABLE for expression in dependent):
            return None
        try:
            rows = enumerate_rows(reduced, fixed, LARGEST_GRID)
        except (KernelError, ExpressionError):  # ExpressionError: values that only a problem's constraints exclude
            return None
        return cls(kernel, rows, dependent) if len(rows) <= LARGEST_SKELETON else None

    def rows(self, names: Names) -> Rows | None:
        """The rows of the configurations that are valid for a problem; None if a constraint has no table."""
        values = dict(names)
        chosen: Numbers = np.zeros(int(all(bool(expression(values)) for expression in self._free)), np.int64)
        tables = tables_of(self._kernel, names)
        for level in self._levels:
            chosen = _longer(level.first, chosen)
            for group, cells in level.groups:
                table = group.table(tables)
                if table is None:
                    return None
                if not table.all():
                    chosen = chosen[table.take(cells.take(chosen))]
        return self._table.take(chosen, axis=1).T


def _reduced(kernel: Kernel, fixed: set[str]) -> tuple[Kernel, list[Expression]]:
    """The kernel with only what parameters and the fixed names determine, and the other constraints' expressions."""
    known = fixed | {parameter.name for parameter in kernel.parameters}
    resolved = {name for name, _ in kernel.split_derived()[0]}
    derived = []
    for name, expression in kernel.derived:
        if name not in resolved and known.issuperset(expression.names):
            known.add(name)
            derived.append((name, expression))
    kept = [constraint for constraint in kernel.constraints if known.issuperset(constraint.expression.names)]
    return (replace(kernel, derived=tuple(derived), constraints=tuple(kept)),
            [constraint.expression for constraint in kernel.constraints if constraint not in kept])


def _levels(layout: Layout, rows: Rows, dependent: Sequence[Expression]) -> list[_Level]:
    """The levels of the tree that has these rows."""
    borders, before = PrefixBorders(rows), np.array([0, len(rows)])
    levels = []
    for axis in range(len(layout.sizes)):
        starts = borders.of(axis)
        groups = [(group, _cells(layout, group, rows[starts[:-1]]))
                  for group in _groups(layout, [expression for expression in dependent
                                                if max(layout.read_by(expression), default=-1) == axis])]
        levels.append(_Level(np.searchsorted(starts, before), groups))
        before = starts
    return levels


def _groups(layout: Layout, expressions: Sequence[Expression]) -> list[_Group]:
    """Join expressions while the grid of the parameters that they read stays small."""
    groups: list[_Group] = []
    for expression in sorted(expressions, key=lambda expression: layout.cells(layout.read_by(expression))):
        axes = layout.read_by(expression)
        both = tuple(sorted({*axes, *groups[-1].axes})) if groups else axes
        if groups and layout.cells(both) <= LARGEST_JOINED:
            groups[-1] = _Group(both, (*groups[-1].expressions, expression))
        else:
            groups.append(_Group(axes, (expression,)))
    return groups


def _cells(layout: Layout, group: _Group, rows: Rows) -> NDArray[np.int32]:
    """The cell of each row in the flat table of a group."""
    cells = np.zeros(len(rows), np.int32)
    for axis in group.axes:
        cells = cells * layout.sizes[axis] + rows[:, axis]
    return cells.astype(np.int32)


def _longer(first: Numbers, chosen: Numbers) -> Numbers:
    """The prefixes of the next level that continue the chosen ones."""
    begins = first[chosen]
    counts = first[chosen + 1] - begins
    ends = np.cumsum(counts)
    longer: Numbers = np.repeat(begins - (ends - counts), counts)
    longer += np.arange(len(longer))
    return longer


class LazySkeleton:
    """The skeleton of a kernel on a device, made for the second problem: one problem alone is enumerated faster."""

    def __init__(self, kernel: Kernel, fixed: Names) -> None:
        self._kernel, self._fixed = kernel, fixed
        self._problems = 0
        self._skeleton: Skeleton | None = None

    def rows(self, names: Names) -> Rows:
        """The rows for a problem: those of the skeleton, or enumerated where it has none.

        Raises KernelError if there may be too many partial configurations.
        """
        self._problems += 1
        if self._problems == 2:
            self._skeleton = Skeleton.of(self._kernel, self._fixed)
        rows = None if self._skeleton is None else self._skeleton.rows(names)
        return enumerate_rows(self._kernel, names) if rows is None else rows


@lru_cache(maxsize=64)
def lazy_skeleton(kernel: Kernel, fixed: Names) -> LazySkeleton:
    return LazySkeleton(kernel, fixed)


def valid_rows(kernel: Kernel, names: Names, device_names: frozenset[str]) -> ValidRows:
    """The valid configurations, as `enumerate_rows` finds them, which are kept for other problems.

    `names` are those that the rows depend on, with their values; `device_names` those that devices have. Raises
    KernelError if there may be too many partial configurations.
    """
    found = _KEPT.known(kernel, names)
    if found is None:
        rows = lazy_skeleton(kernel, tuple([item for item in names if item[0] in device_names])).rows(names)
        rows.setflags(write=False)
        found = ValidRows(rows, PrefixBorders(rows))
        _KEPT.keep(kernel, names, found)
    return found
