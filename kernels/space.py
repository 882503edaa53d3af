"""SearchSpace: all valid configurations of one kernel for one problem on one device, and look-ahead in it.

The space is enumerated by progressive filtering: the parameters are added in decoding order, and after each of them
every constraint whose names all have values drops rows. The rows are sorted, so the configurations that share a prefix
are one range of rows, and the values allowed after the prefix are the distinct values of the next column in that range.
Hence look-ahead is exact: every prefix offered here leads to a valid configuration, and none to an invalid one.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ConfigurationError, KernelError

from .devices.device import COMMAND_DEVICE, Device, Fact
from .enumeration import column_of
from .kernel import Configuration, Kernel, Setting, identity
from .problem import Problem, names_of
from .registry import backends_for, families
from .row_index import Numbers, PrefixBorders, RowIndex, Rows
from .spaces.exclusion import excluding_constraint
from .spaces.row_cache import Names
from .spaces.skeleton import valid_rows
from .spaces.value_tables import RowValues, ValueTables, layout_of, tables_of

LARGEST_GRID = 1 << 20  # combinations of values up to which distinct rows are looked for: an array of 8 MB
FEW_ROWS = 4096  # rows up to which quantities are looked up in tables; for more rows, evaluating is as fast


class SearchSpace:
    """The valid configurations of `kernel` for `problem` on `device`, in sorted order, numbered from 0.

    Raises KernelError if the kernel does not solve the problem.
    """

    def __init__(self, kernel: Kernel, problem: Problem, device: Device) -> None:
        reason = kernel.why_not(problem, device)
        if reason is not None:
            raise KernelError(reason)
        self.kernel = kernel
        self.problem = problem
        self.device = device
        names: dict[str, Any] = names_of(problem, device)
        self._names = names  # which the spaces of a problem share
        resolved, needed = kernel.split_derived()
        if resolved:
            names = dict(names)
            for name, expression in resolved:
                names[name] = expression(names)
        # None if another tool gave the rows
        self.identity: Names | None = tuple([(name, names[name]) for name in needed])
        valid = valid_rows(kernel, self.identity, _fact_names(device.extra))
        self.rows: Rows = valid.rows
        self._whole = True
        self._index: RowIndex | None = None
        self._borders: PrefixBorders | None = valid.borders

    @classmethod
    def of_rows(cls, kernel: Kernel, problem: Problem, device: Device, rows: Rows) -> SearchSpace:
        """Make a space from the valid configurations that another tool lists, in any order and without duplicates."""
        space = cls.__new__(cls)
        space.kernel, space.problem, space.device = kernel, problem, device
        space._names = names_of(problem, device)
        space.identity = None
        space._set_rows(rows[np.lexsort(rows.T[::-1])])
        return space

    def _set_rows(self, rows: Rows) -> None:
        """Take rows that are given, in place of those that the constraints leave."""
        rows.setflags(write=False)
        self.rows, self._whole, self._index, self._borders = rows, False, None, None

    def only(self, keep: NDArray[np.bool_]) -> SearchSpace:
        """The same space reduced to the rows where `keep` is True; its look-ahead is exact, too."""
        return self.at(np.flatnonzero(keep))

    def at(self, rows: Numbers) -> SearchSpace:
        """The same space reduced to some rows; given in order, its look-ahead is exact, too."""
        space = copy.copy(self)
        space._set_rows(self.rows[rows])
        return space

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> Configuration:
        """The configuration in this row."""
        indices = self.rows[row]
        settings = tuple(
            (parameter.name, parameter.values[index])
            for parameter, index in zip(self.kernel.parameters, indices, strict=True))
        return Configuration(self.kernel.name, settings)

    def __iter__(self) -> Iterator[Configuration]:
        return (self[row] for row in range(len(self)))

    def __contains__(self, configuration: object) -> bool:
        return isinstance(configuration, Configuration) and self.why_not(configuration) is None

    def why_not(self, configuration: Configuration) -> str | None:
        """The reason why a configuration is not in the space, or None if it is."""
        misfit = self.kernel.misfit(configuration)
        if misfit is not None:
            return misfit
        begin, end = self._rows_of(configuration)
        if begin < end:
            return None
        names = dict(self._names)  # columns of one row: the same arithmetic as the enumeration's
        for parameter in self.kernel.parameters:
            names[parameter.name] = column_of(parameter)[[parameter.index(configuration[parameter.name])]]
        for name, expression in self.kernel.derived:
            names[name] = expression(names)
        for constraint in self.kernel.constraints:
            if not np.all(constraint.expression(names)):
                return f"{constraint.reason} ({constraint.expression.text})"
        assert not self._whole, f"{self.kernel.name}: {configuration.brief()} breaks no constraint and has no row"
        return "it is not among the configurations that this space was cut down to"

    def row(self, configuration: Configuration) -> int:
        """The row of a configuration. Raises ConfigurationError with the reason if it is not in the space."""
        reason = self.why_not(configuration)
        if reason is not None:
            raise ConfigurationError(f"{self.kernel.name}: {reason}")
        return self._rows_of(configuration)[0]

    @property
    def index(self) -> RowIndex:
        """The index that finds rows of the space, built on first use."""
        if self._index is None:
            self._index = RowIndex(self.rows)
        return self._index

    def find(self, settings: Sequence[Mapping[str, Setting]]) -> NDArray[np.int64]:
        """The row of each configuration, given by its settings; -1 if it is not in the space."""
        indices = np.empty((len(settings), len(self.kernel.parameters)), np.int16)
        for column, parameter in enumerate(self.kernel.parameters):
            indices[:, column] = [parameter.indices.get(identity(setting.get(parameter.name)), -1)
                                  for setting in settings]
        return self.index.find(indices)

    def _rows_of(self, configuration: Configuration) -> tuple[int, int]:
        begin, end = 0, len(self)
        for column, parameter in enumerate(self.kernel.parameters):
            index = parameter.index(configuration[parameter.name])
            begin, end = self._narrow(begin, end, column, index)
        return begin, end

    def next_ranges(self, begins: Numbers, ends: Numbers, column: int) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """The values allowed in `column` after several prefixes; prefix i is shared by rows [begins[i], ends[i]).

        Four arrays with an entry for each pair of prefix and value, in the order of the prefixes: the index of the
        prefix, the index of the value, and the range of rows that begin with both.
        """
        if self._borders is None:
            self._borders = PrefixBorders(self.rows)
        borders = self._borders.of(column)
        first, last = borders.searchsorted(begins), borders.searchsorted(ends)
        counts = last - first
        parents = np.arange(len(begins)).repeat(counts)
        indices = (first - (counts.cumsum() - counts)).repeat(counts)
        indices += np.arange(len(parents))
        starts = borders[indices]
        return parents, self.rows[starts, column].astype(np.int64), starts, borders[indices + 1]

    def _narrow(self, begin: int, end: int, column: int, index: int) -> tuple[int, int]:
        part = self.rows[begin:end, column]
        first, last = np.searchsorted(part, [index, index + 1])
        return begin + int(first), begin + int(last)

    def sample(self, generator: np.random.Generator, count: int) -> list[Configuration]:
        """Draw `count` distinct configurations uniformly, or all configurations if there are fewer."""
        chosen = generator.choice(len(self), size=min(count, len(self)), replace=False)
        return [self[int(row)] for row in chosen]

    def nearest(self, settings: Mapping[str, Setting]) -> Configuration:
        """The valid configuration nearest to the given settings, which need not be valid or complete.

        The nearest one changes the fewest parameters, then moves the shortest way along their value lists, then comes
        first in the space. Parameters without a setting, or with a value that no longer exists, may have any value.
        Raises KernelError if the space is empty.
        """
        if not len(self):
            raise KernelError(f"{self.kernel.name} has no valid configuration for {self.problem.brief()}")
        cost = np.zeros(len(self))
        change = sum(len(parameter.values) for parameter in self.kernel.parameters)  # more than all moves together
        for column, parameter in enumerate(self.kernel.parameters):
            if settings.get(parameter.name) in parameter:
                away = np.abs(self.rows[:, column] - parameter.index(settings[parameter.name]))
                cost += np.where(away > 0, change + away, 0)
        return self[int(np.argmin(cost))]

    @property
    def default(self) -> Configuration:
        """The safe default: the valid configuration nearest to the kernel's declared default."""
        return self.nearest(dict(self.kernel.default))

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns of all parameters and derived quantities over all rows, by name; for models and charts."""
        values = self._values(self.rows)
        names = [parameter.name for parameter in self.kernel.parameters] + [name for name, _ in self.kernel.derived]
        return {name: values.column(name) for name in names}

    def derived_columns(self, names: tuple[str, ...], rows: Numbers | None = None,
                        known: Mapping[str, NDArray[Any]] | None = None) -> dict[str, NDArray[Any]]:
        """Columns of parameters and derived quantities over some rows (None: all), by name.

        Only what they need is computed, and nothing that is `known`.
        """
        values = self._values(self.rows if rows is None else self.rows[rows], known)
        return {name: values.column(name) for name in names}

    def distinct(self, names: tuple[str, ...]) -> tuple[Numbers, Numbers]:
        """Rows that stand for all rows in these parameters and derived quantities, and which one stands for each row.

        Two arrays: the first row of each combination of values of the parameters that `names` read, (distinct row,), in
        the order of the combinations; and the index into it of each row, (row,). Every row stands for itself where
        `names` read all parameters, or parameters with more than LARGEST_GRID combinations.
        """
        layout = layout_of(self.kernel)
        read = sorted({axis for name in names for axis in layout.axes[name]})
        cells = math.prod(layout.sizes[axis] for axis in read)
        if len(read) == len(layout.sizes) or cells > LARGEST_GRID:
            every = np.arange(len(self))
            return every, every
        cell = np.zeros(len(self), np.int64)  # the number of each row's combination
        for axis in read:
            cell *= layout.sizes[axis]
            cell += self.rows[:, axis]
        first = np.full(cells, -1, np.int64)  # row of each combination; later its index in `rows`
        first[cell[::-1]] = np.arange(len(self))[::-1]  # the last one that is written stays: the first row
        present = np.flatnonzero(first >= 0)
        rows = first[present]
        first[present] = np.arange(len(present))
        return rows, first[cell]

    @property
    def tables(self) -> ValueTables | None:
        """The tables of derived quantities over the values of parameters; None if the rows were given."""
        return None if self.identity is None else tables_of(self.kernel, self.identity)

    @property
    def names(self) -> Mapping[str, Any]:
        """The values of the names of problem and device."""
        return self._names

    def _values(self, rows: Rows, known: Mapping[str, NDArray[Any]] | None = None) -> RowValues:
        return RowValues(self.kernel, self._names, rows, self.tables if len(rows) <= FEW_ROWS else None, known or {})


def spaces_for(problem: Problem, device: Device, kernels: Sequence[Kernel] | None = None) -> tuple[SearchSpace, ...]:
    """The search spaces of all kernel families that solve the problem on the device, without empty ones.

    The families are `kernels`, by default those of the device's backend. Raises KernelError, with each family's reason,
    if no family solves the problem.
    """
    chosen = list(kernels or families(device.backend, problem.type))
    solving = [SearchSpace(family, problem, device) for family in chosen
               if family.why_not(problem, device) is None]
    spaces = tuple(space for space in solving if len(space))
    if not spaces:
        reasons = [_why_empty(space) for space in solving]
        reasons += [reason for family in chosen if family.operation == problem.type
                    and (reason := family.why_not(problem, device)) is not None]
        reason = "; ".join(reasons) or f"there is none for {problem.type}"
        raise KernelError(f"no kernel of {device.backend} solves {problem.brief()}: "
                          f"{reason}{_elsewhere(problem, device, chosen)}")
    return spaces


@lru_cache(maxsize=256)
def _fact_names(extra: tuple[tuple[str, Fact], ...]) -> frozenset[str]:
    """The names that a device with these extra facts has."""
    return frozenset(Device("", "", "", "", extra=extra).names())


def _why_empty(space: SearchSpace) -> str:
    """The constraint that leaves a space without a configuration."""
    kernel = space.kernel
    excluding = excluding_constraint(kernel, space.identity or ())
    count = math.prod(len(parameter.values) for parameter in kernel.parameters)
    if excluding is None:
        return f"{kernel.name} has no valid configuration among {count}"
    constraint, alone = excluding
    text, reason = constraint.expression.text, constraint.reason
    return (f"{kernel.name}: none of its {count} configurations is allowed: {text[:80]!r} excludes "
            f"{'all' if alone else 'the last'}{'' if reason == text else f' ({reason})'}")


# Operation and instruction set -> the kernels of a tool that can be predicted, of an operation of their own
_FOREIGN_HINTS = {
    ("conv2d", "amdgcn"): "; MIOpen's can be predicted (--device miopen:{0.architecture}_{0.compute_units})",
}


def _elsewhere(problem: Problem, device: Device, chosen: Sequence[Kernel]) -> str:
    """A hint at the backends with kernels for the problem's operation, if none of these families solves it.

    `_FOREIGN_HINTS` names a tool's device where its kernels have an operation of their own.
    """
    if any(family.operation == problem.type for family in chosen):
        return ""
    backends = backends_for(problem.type)
    devices = " or ".join(f"--device {COMMAND_DEVICE if backend == 'command' else f'{backend}:0'}"
                          for backend in backends)
    hint = f"; its kernels run on {', '.join(backends)} ({devices})" if backends else ""
    return hint + _FOREIGN_HINTS.get((problem.type, device.instruction_set), "").format(device)
