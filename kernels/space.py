"""SearchSpace: all valid configurations of one kernel for one problem on one device, and look-ahead in it.

The space is enumerated by progressive filtering: one column per parameter, in decoding order; after each new column
every constraint whose names are all known drops rows. Rows come out sorted, so the configurations that share a prefix
are one row range, and the words allowed after a prefix are the distinct values of the next column in that range. Hence
look-ahead is exact: no prefix offered here can dead-end, and none leads to an invalid configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ConfigurationError, KernelError
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import (
    Configuration,
    Constraint,
    Kernel,
    Parameter,
    Setting,
    kernel,
    kernels_for,
    table,
)
from seqtune.kernels.problem import Problem

LARGEST_SPACE = 20_000_000  # rows while enumerating; a larger space is refused rather than swapped to disk

Rows = NDArray[np.int16]  # (configuration, parameter): places in Parameter.values


@dataclass(frozen=True, slots=True)
class Step:
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
        settled, needed = kernel.settled()
        for name, expression in settled:
            names[name] = expression(names)
        self.rows: Rows = _enumerate(kernel, tuple((name, names[name]) for name in needed))

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
            names[parameter.name] = _column(parameter)[[parameter.values.index(configuration[parameter.name])]]
        for name, expression in self.kernel.derived:
            names[name] = expression(names)
        for constraint in self.kernel.constraints:
            if not np.all(constraint.expression(names)):
                return f"{constraint.reason} ({constraint.expression.text})"
        raise AssertionError(f"{self.kernel.name}: {configuration.brief()} breaks no constraint and has no row")

    def row(self, configuration: Configuration) -> int:
        """The number of a configuration. Raises ConfigurationError with the reason where it is not in the space."""
        reason = self.why_not(configuration)
        if reason is not None:
            raise ConfigurationError(f"{self.kernel.name}: {reason}")
        return self._rows_of(configuration)[0]

    def _rows_of(self, configuration: Configuration) -> tuple[int, int]:
        begin, end = 0, len(self)
        for column, parameter in enumerate(self.kernel.parameters):
            place = parameter.values.index(configuration[parameter.name])
            begin, end = self._narrow(begin, end, column, place)
        return begin, end

    def steps(self, begin: int, end: int, column: int) -> list[Step]:
        """The words allowed in `column` after the prefix that rows [begin, end) share, in value order."""
        part = self.rows[begin:end, column]
        if not len(part):
            return []
        starts = np.flatnonzero(np.concatenate(([True], part[1:] != part[:-1])))
        ends = np.append(starts[1:], len(part))
        return [Step(int(part[first]), begin + int(first), begin + int(last))
                for first, last in zip(starts, ends, strict=True)]

    def _narrow(self, begin: int, end: int, column: int, place: int) -> tuple[int, int]:
        part = self.rows[begin:end, column]
        first, last = np.searchsorted(part, [place, place + 1])
        return begin + int(first), begin + int(last)

    def sample(self, generator: np.random.Generator, count: int) -> list[Configuration]:
        """`count` distinct configurations drawn uniformly (all of them where there are fewer)."""
        chosen = generator.choice(len(self), size=min(count, len(self)), replace=False)
        return [self[int(row)] for row in chosen]

    def neighbours(self, configuration: Configuration) -> list[Configuration]:
        """Valid configurations that differ in one parameter, nearest values first."""
        here = self.rows[self.row(configuration)]
        apart = self.rows != here
        rows = np.flatnonzero(apart.sum(axis=1) == 1)
        distance = np.abs(self.rows[rows].astype(int) - here).sum(axis=1)
        return [self[int(row)] for row in rows[np.argsort(distance, kind="stable")]]

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
            found[parameter.name] = _column(parameter)[self.rows[:, column]]
        names = {**self._names, **found}
        for name, expression in self.kernel.derived:
            names[name] = found[name] = np.broadcast_to(np.asarray(expression(names)), len(self))
        return found


def _column(parameter: Parameter) -> NDArray[Any]:
    """The values as a column; numbers beside words stay what they are."""
    words = sum(isinstance(value, str) for value in parameter.values)
    return np.asarray(parameter.values, dtype=object if 0 < words < len(parameter.values) else None)


@lru_cache(maxsize=512)
def _enumerate(kernel: Kernel, seen: tuple[tuple[str, Any], ...]) -> Rows:
    names: dict[str, Any] = dict(seen)
    pending: list[Constraint] = list(kernel.constraints)
    settled = {name for name, _ in kernel.settled()[0]}
    derived = [(name, expression) for name, expression in kernel.derived if name not in settled]
    rows = np.zeros((1, 0), dtype=np.int16)
    rows = _filter(rows, names, pending, derived)
    for parameter in kernel.parameters:
        count = len(parameter.values)
        if len(rows) * count > LARGEST_SPACE:
            raise KernelError(f"{kernel.name}: more than {LARGEST_SPACE} partial configurations; add constraints")
        places = np.tile(np.arange(count, dtype=np.int16), len(rows))
        for name, value in names.items():
            if isinstance(value, np.ndarray):
                names[name] = np.repeat(value, count)
        rows = np.concatenate([np.repeat(rows, count, axis=0), places[:, None]], axis=1)
        names[parameter.name] = _column(parameter)[places]
        rows = _filter(rows, names, pending, derived)
    rows.setflags(write=False)
    return rows


def _filter(rows: Rows, names: dict[str, Any], pending: list[Constraint],
            derived: list[tuple[str, Any]]) -> Rows:
    """Drop rows that break a constraint all of whose names are known by now; compute derived quantities as they can."""
    for item in list(derived):
        if all(name in names for name in item[1].names):
            value = np.asarray(item[1](names))
            names[item[0]] = np.broadcast_to(value, len(rows)).copy()
            derived.remove(item)
    for constraint in list(pending):
        if all(name in names for name in constraint.expression.names):
            pending.remove(constraint)
            keep = np.broadcast_to(np.asarray(constraint.expression(names), dtype=bool), len(rows))
            if not keep.all():
                rows = rows[keep]
                for name, value in names.items():
                    if isinstance(value, np.ndarray):
                        names[name] = value[keep]
    return rows


def spaces_for(problem: Problem, device: Device, kernels: Sequence[Kernel] | None = None) -> tuple[SearchSpace, ...]:
    """The search spaces of every kernel family that solves the problem on the device, empty ones left out.

    Raises KernelError, with each family's reason, where nothing solves it.
    """
    found = tuple(SearchSpace(kernel, problem, device) for kernel in (kernels or kernels_for(problem, device)))
    found = tuple(space for space in found if len(space))
    if not found:
        raise KernelError(f"no kernel of {device.backend} solves {problem.brief()}: {_reasons(problem, device)}")
    return found


def _reasons(problem: Problem, device: Device) -> str:
    families = [kernel(name) for name in table(device.backend)]
    reasons = [reason for family in families if family.problem_type == problem.type
               and (reason := family.why_not(problem, device)) is not None]
    return "; ".join(reasons) or f"there is none for {problem.type}"
