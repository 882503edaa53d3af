"""Defaults: the safe default of each case, and its measured time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.task import Task

from ..errors import SeqtuneError
from .cases import Cases

MOST_ROWS = 20_000_000  # configurations enumerated for all cases together: less than a minute
REFUSED = 200_000  # configurations counted for a space whose enumeration was refused


@dataclass(frozen=True, eq=False)
class CaseDefaults:
    """The safe default of each case: None where it is of no measured kernel, or the machine's facts are not known."""

    configurations: tuple[Configuration | None, ...]
    kernel: NDArray[np.int64]  # index into the tables of the cases; -1: never measured
    configuration: NDArray[np.int64]  # its number in that table; -1: never measured
    seconds: NDArray[np.float64]  # NaN: not measured in this case, or it failed


def task_of(cases: Cases, case: int) -> Task | None:
    """The task of a case with the kernels that solve it; None where there are none, or its device is not known."""
    device = cases.measurements.machines[cases.machine[case]].device
    if device is None:
        return None
    problem = cases.measurements.problems[cases.problems[cases.problem[case]]]
    declared = [kernel for kernel in cases.measurements.declared.values() if kernel.why_not(problem, device) is None]
    try:
        return Task.of(problem, device, declared or None)
    except SeqtuneError:
        return None


def case_defaults(cases: Cases, most_rows: int = MOST_ROWS) -> CaseDefaults:
    """The safe defaults, until `most_rows` configurations were enumerated; the cases after that have none."""
    index = {table.name: number for number, table in enumerate(cases.tables)}
    measured = {(case, kernel, number): seconds
                for case, kernel, number, seconds in cases.times.itertuples(index=False, name=None)}
    configurations: list[Configuration | None] = []
    kernels, numbers = np.full(len(cases), -1), np.full(len(cases), -1)
    seconds = np.full(len(cases), np.nan)
    left = most_rows
    for case in range(len(cases)):
        task = task_of(cases, case) if left > 0 else None
        left -= REFUSED if task is None else len(task)
        default = None if task is None else task.default
        if default is not None and default.kernel not in index:  # the measured kernels belong to another library
            default = None
        configurations.append(default)
        if default is not None:
            kernel = index[default.kernel]
            number = cases.tables[kernel].numbers.get(default.pairs)
            if number is not None:
                kernels[case], numbers[case] = kernel, number
                seconds[case] = measured.get((case, kernel, number), np.nan)
    return CaseDefaults(tuple(configurations), kernels, numbers, seconds)
