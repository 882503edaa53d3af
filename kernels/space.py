"""SearchSpace: all valid configurations of one kernel for one problem on one device, and look-ahead in it.

The space is enumerated by progressive filtering: one parameter after the other, in decoding order; with each of them
every constraint whose names are all known drops rows. Rows come out sorted, so the configurations that share a prefix
are one row range, and the words allowed after a prefix are the distinct values of the next column in that range. Hence
look-ahead is exact: no prefix offered here can dead-end, and none leads to an invalid configuration.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ConfigurationError, KernelError

from .device import Device
from .enumeration import Rows, column_of, enumerate_rows
from .kernel import Configuration, Kernel, Setting
from .problem import Problem
from .registry import kernel, table
from .row_index import RowIndex


class Step(NamedTuple):
    """One word allowed after a prefix: its place in `Parameter.values` and the rows that begin with it."""

    place: int
    begin: int
    end: int


class SearchSpace:
    """The valid configurations of `kernel` for `problem` on `device`, in sorted order, numbered from 0.

    Raises KernelError where the kernel does not solve the problem.
    """

    def __init__(self, kernel: Kernel, problem: Problem, device: Device) -> None:
        reason = kernel.why_not(problem, device)
        if reason is not None:
            raise KernelError(reason)
        self.kernel = kernel
        self.problem = problem
        self.device = device
        self._names: dict[str, Any] = {**device.names(), **problem.names()}
        names = dict(self._names)
        settled, needed = kernel.split_derived()
        for name, expression in settled:
            names[name] = expression(names)
        self.rows: Rows = enumerate_rows(kernel, tuple((name, names[name]) for name in needed))

        self._whole = True
        self._index: RowIndex | None = None

    @classmethod
    def of_rows(cls, kernel: Kernel, problem: Problem, device: Device, rows: Rows) -> SearchSpace:
        """A space of which another tool tells the valid configurations, in any order; none is told twice."""
        found = cls.__new__(cls)
        found.kernel, found.problem, found.device = kernel, problem, device
        found._names = {**device.names(), **problem.names()}
        found.rows = rows[np.lexsort(rows.T[::-1])]
        found.rows.setflags(write=False)
        found._whole = False
        found._index = None
        return found

    def only(self, keep: NDArray[np.bool_]) -> SearchSpace:
        """The same space with the chosen rows alone; look-ahead is exact in it, too."""
        found = copy.copy(self)
        found.rows = self.rows[keep]
        found.rows.setflags(write=False)
        found._whole = False
        found._index = None
        return found

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> Configuration:
        """The configuration in that row."""
        places = self.rows[row]
        settings = tuple(
            (parameter.name, parameter.values[place])
            for parameter, place in zip(self.kernel.parameters, places, strict=True))
        return Configuration(self.kernel.name, settings)

    def __iter__(self) -> Iterator[Configuration]:
        return (self[row] for row in range(len(self)))

    def __contains__(self, configuration: object) -> bool:
        return isinstance(configuration, Configuration) and self.why_not(configuration) is None

    def why_not(self, configuration: Configuration) -> str | None:
        """The reason why a configuration is not in the space, or None where it is."""
        if configuration.kernel != self.kernel.name:
            return f"it is a configuration of {configuration.kernel}, not of {self.kernel.name}"
        given = dict(configuration.settings)
        for parameter in self.kernel.parameters:
            if parameter.name not in given:
                return f"{parameter.name} is missing"
            if given.pop(parameter.name) not in parameter.values:
                listed = ", ".join(map(str, parameter.values[:30]))
                return f"{parameter.name}={configuration[parameter.name]!r:.40} is not one of {listed}"
        if given:
            return f"{self.kernel.name} has no parameter {next(iter(given))!r:.40}"
        if len(configuration.settings) != len(self.kernel.parameters):
            return "a parameter is given twice"
        begin, end = self._rows_of(configuration)
        if begin < end:
            return None
        names = dict(self._names)  # columns of one row, so that the answer is that of the enumeration
        for parameter in self.kernel.parameters:
            names[parameter.name] = column_of(parameter)[[parameter.values.index(configuration[parameter.name])]]
        for name, expression in self.kernel.derived:
            names[name] = expression(names)
        for constraint in self.kernel.constraints:
            if not np.all(constraint.expression(names)):
                return f"{constraint.reason} ({constraint.expression.text})"
        assert not self._whole, f"{self.kernel.name}: {configuration.brief()} breaks no constraint and has no row"
        return "it is not among the configurations that this space was cut down to"

    def row(self, configuration: Configuration) -> int:
        """The number of a configuration. Raises ConfigurationError with the reason where it is not in the space."""
        reason = self.why_not(configuration)
        if reason is not None:
            raise ConfigurationError(f"{self.kernel.name}: {reason}")
        return self._rows_of(configuration)[0]

    @property
    def index(self) -> RowIndex:
        """Finds rows of the space; made when it is first asked for."""
        if self._index is None:
            self._index = RowIndex(self.rows)
        return self._index

    def find(self, settings: Sequence[Mapping[str, Setting]]) -> NDArray[np.int64]:
        """The row of each of many configurations, -1 where it is not in the space; all at once."""
        indices = np.empty((len(settings), len(self.kernel.parameters)), np.int16)
        for column, parameter in enumerate(self.kernel.parameters):
            known: dict[Any, int] = {value: index for index, value in enumerate(parameter.values)}
            indices[:, column] = [known.get(setting.get(parameter.name), -1) for setting in settings]
        return self.index.find(indices)

    def _rows_of(self, configuration: Configuration) -> tuple[int, int]:
        begin, end = 0, len(self)
        for column, parameter in enumerate(self.kernel.parameters):
            place = parameter.values.index(configuration[parameter.name])
            begin, end = self._narrow(begin, end, column, place)
        return begin, end

    def steps(self, begin: int, end: int, column: int) -> list[Step]:
        """The words allowed in `column` after the prefix that rows [begin, end) share, in value order."""
        places = np.arange(len(self.kernel.parameters[column].values) + 1, dtype=np.int16)
        borders = self.rows[begin:end, column].searchsorted(places)  # the part is sorted, so comparing all is slower
        found = np.flatnonzero(borders[1:] > borders[:-1]).tolist()
        rows = (borders + begin).tolist()
        return [Step(place, rows[place], rows[place + 1]) for place in found]

    def _narrow(self, begin: int, end: int, column: int, place: int) -> tuple[int, int]:
        part = self.rows[begin:end, column]
        first, last = np.searchsorted(part, [place, place + 1])
        return begin + int(first), begin + int(last)

    def sample(self, generator: np.random.Generator, count: int) -> list[Configuration]:
        """`count` distinct configurations drawn uniformly (all of them where there are fewer)."""
        chosen = generator.choice(len(self), size=min(count, len(self)), replace=False)
        return [self[int(row)] for row in chosen]

    def nearest(self, wish: Mapping[str, Setting]) -> Configuration:
        """The valid configuration nearest to a wish that need not be valid.

        Fewest parameters changed first, then the smallest steps along their value lists, then the first row.
        Parameters that the wish leaves out, or values that no longer exist, count as free. Raises KernelError on an
        empty space.
        """
        if not len(self):
            raise KernelError(f"{self.kernel.name} has no valid configuration for {self.problem.brief()}")
        cost = np.zeros(len(self))
        change = sum(len(parameter.values) for parameter in self.kernel.parameters)  # dearer than any steps together
        for column, parameter in enumerate(self.kernel.parameters):
            if wish.get(parameter.name) in parameter.values:
                away = np.abs(self.rows[:, column] - parameter.values.index(wish[parameter.name]))
                cost += np.where(away > 0, change + away, 0)
        return self[int(np.argmin(cost))]

    @property
    def default(self) -> Configuration:
        """The safe default: the valid configuration nearest to the kernel's wish."""
        return self.nearest(dict(self.kernel.default))

    def columns(self) -> dict[str, NDArray[Any]]:
        """Every parameter's value and every derived quantity over all rows, by name; for models and charts."""
        found: dict[str, NDArray[Any]] = {}
        for column, parameter in enumerate(self.kernel.parameters):
            found[parameter.name] = column_of(parameter)[self.rows[:, column]]
        names = {**self._names, **found}
        for name, expression in self.kernel.derived:
            names[name] = found[name] = np.broadcast_to(np.asarray(expression(names)), len(self))
        return found



def spaces_for(problem: Problem, device: Device, kernels: Sequence[Kernel] | None = None) -> tuple[SearchSpace, ...]:
    """The search spaces of every kernel family that solves the problem on the device, empty ones left out.

    Of ours, or of those `kernels`. Raises KernelError, with each family's reason, where nothing solves it.
    """
    families = list(kernels or map(kernel, table(device.backend)))
    solving = [family for family in families if family.why_not(problem, device) is None]
    found = tuple(space for family in solving if len(space := SearchSpace(family, problem, device)))
    if not found:
        reasons = [reason for family in families if family.operation == problem.type
                   and (reason := family.why_not(problem, device)) is not None]
        raise KernelError(f"no kernel of {device.backend} solves {problem.brief()}: "
                          f"{'; '.join(reasons) or f'there is none for {problem.type}'}")
    return found
