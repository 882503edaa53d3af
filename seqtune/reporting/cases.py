"""Cases: the measured problems of each machine, their records as whole numbers, and a time for each configuration.

A case is a problem on a machine. Only records of the newest version of each kernel and of one toolchain of a machine
are compared: the one that the device's facts name, or else the most frequent one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seqtune.data.dataset import configuration
from seqtune.data.journal.journal import REPEATED
from seqtune.kernels.kernel import Kernel, Parameter, Setting, identity, shown_setting

from .measurements import Measurements

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class KernelTable:
    """The distinct measured configurations of a kernel family, as indices of values."""

    name: str
    kernel: Kernel | None  # its declaration
    parameters: tuple[tuple[str, tuple[Setting | None, ...]], ...]  # names and values; None: a row lacks the parameter
    indices: Indices  # (configuration, parameter)
    numbers: dict[frozenset[tuple[str, Hashable]], int]  # `Configuration.pairs` -> number of the configuration


@dataclass(frozen=True, eq=False)
class Cases:
    """Records of comparable measurements, sorted by case, each case in the order of measuring where that is known.

    `rows` has the columns case, kernel (index into `tables`), configuration (its number in that table), seconds (NaN:
    failed) and repeated (whether it is an intended repetition).
    `times` has a row for each configuration of a case that ran: case, kernel, configuration, and its median seconds.
    """

    measurements: Measurements
    rows: pd.DataFrame
    times: pd.DataFrame
    tables: tuple[KernelTable, ...]
    problems: tuple[str, ...]  # Problem.key
    machine: Indices  # (case,) index into the machines of `measurements`
    problem: Indices  # (case,) index into `problems`
    former: int  # records of earlier kernel versions and of other toolchains

    def __len__(self) -> int:
        return len(self.machine)

    def counts(self) -> Indices:
        """The number of records of each case."""
        return np.bincount(self.rows["case"], minlength=len(self))

    def largest(self, most: int) -> Cases:
        """The `most` cases with the most records, in the same order; all if they are no more."""
        if len(self) <= most:
            return self
        kept = np.zeros(len(self), bool)
        kept[np.argsort(-self.counts(), kind="stable")[:most]] = True
        numbers = np.cumsum(kept) - 1
        problems, problem = np.unique(self.problem[kept], return_inverse=True)
        rows, times = (frame[kept[frame["case"].to_numpy()]].reset_index(drop=True)
                       for frame in (self.rows, self.times))
        return replace(self, rows=rows.assign(case=numbers[rows["case"]]),
                       times=times.assign(case=numbers[times["case"]]), machine=self.machine[kept], problem=problem,
                       problems=tuple(self.problems[index] for index in problems.tolist()))

    def best(self) -> pd.DataFrame:
        """The row of `times` with the least seconds of each case, indexed by case; cases that never ran are missing."""
        fastest: pd.DataFrame = self.times.loc[self.times.groupby("case")["seconds"].idxmin()].set_index("case")
        return fastest


def cases_of(measurements: Measurements) -> Cases:
    """The cases of measurements. Raises FormatError if a row holds no configuration."""
    comparable = _comparable(measurements)
    rows = measurements.rows[comparable]
    kernel, names = pd.factorize(rows["kernel"], sort=True)
    problem, problems = pd.factorize(rows["problem"], sort=True)
    machine = rows["machine"].to_numpy()
    tables, numbers = [], np.zeros(len(rows), np.int64)
    texts = rows["configuration"].to_numpy()
    for index, name in enumerate(names):
        chosen = kernel == index
        which, distinct = pd.factorize(texts[chosen])
        table, number = _table(str(name), list(distinct), measurements.kernel(str(name)))
        tables.append(table)
        numbers[chosen] = number[which]
    pairs, case = np.unique(np.stack([machine, problem]), axis=1, return_inverse=True)
    coded = pd.DataFrame({"case": case, "kernel": kernel, "configuration": numbers,
                          "seconds": rows["seconds"].to_numpy(), "repeated": rows["run"].isin(REPEATED).to_numpy()})
    order = ["case"] if measurements.ordered else ["case", "kernel", "configuration", "repeated", "seconds"]
    coded = coded.sort_values(order, kind="stable", ignore_index=True)
    ran = coded[coded["seconds"].notna()]
    times = ran.groupby(["case", "kernel", "configuration"])["seconds"].median().reset_index()
    return Cases(measurements, coded, times, tuple(tables), tuple(map(str, problems)), pairs[0], pairs[1],
                 int((~comparable).sum()))


def _comparable(measurements: Measurements) -> NDArray[np.bool_]:
    """A mask of the records that are compared with each other."""
    rows = measurements.rows
    newest = rows.groupby("kernel")["version"].transform("max")
    keep = (rows["version"] == newest).to_numpy(copy=True)
    for index, machine in enumerate(measurements.machines):
        own = (rows["machine"] == index).to_numpy()
        toolchains = rows.loc[own, "toolchain"]
        known = "" if machine.device is None else machine.device.toolchain
        chosen = known if known in set(toolchains) else toolchains.mode().iloc[0]
        keep &= ~own | (rows["toolchain"] == chosen).to_numpy()
    return np.asarray(keep, bool)


def _table(name: str, texts: list[str], kernel: Kernel | None) -> tuple[KernelTable, Indices]:
    """The table of a kernel, and the number in it of the configuration that each text describes."""
    numbers: dict[frozenset[tuple[str, Hashable]], int] = {}
    settings: list[dict[str, Any]] = []
    number = np.empty(len(texts), np.int64)
    for row, text in enumerate(texts):
        own = configuration(name, text)
        number[row] = numbers.setdefault(own.pairs, len(settings))
        if number[row] == len(settings):
            settings.append(dict(own.settings))
    parameters = list(dict.fromkeys(parameter for own in settings for parameter in own))
    if kernel is not None:
        order = [parameter.name for parameter in kernel.parameters]
        parameters.sort(key=lambda parameter: order.index(parameter) if parameter in order else len(order))
    listed, columns = [], []
    for parameter in parameters:
        present = {identity(value): value for value in (own.get(parameter) for own in settings)}
        declared = kernel.by_name.get(parameter) if kernel is not None else None
        values = sorted(present.values(), key=lambda value: _rank(value, declared))
        index_of = {identity(value): index for index, value in enumerate(values)}
        columns.append([index_of[identity(own.get(parameter))] for own in settings])
        listed.append((parameter, tuple(values)))
    indices = np.array(columns, np.int64).reshape(len(parameters), len(settings)).T
    return KernelTable(name, kernel, tuple(listed), indices, numbers), number


def _rank(value: Setting | None, declared: Parameter | None) -> tuple[int, float, str]:
    """The sort key of a value: numbers ascending, then words as they are declared, then a missing value."""
    if value is None:
        return 2, 0.0, ""
    if not isinstance(value, str):
        return 0, float(value), ""
    return 1, math.inf if declared is None or value not in declared else float(declared.index(value)), value


def settings_text(table: KernelTable, number: int) -> str:
    """A configuration of a table as one line of text."""
    chosen = zip(table.parameters, table.indices[number].tolist(), strict=True)
    return " ".join(f"{name}={shown_setting(value)}" for (name, values), index in chosen
                    if (value := values[index]) is not None)
