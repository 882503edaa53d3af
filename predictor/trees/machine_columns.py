"""Machine columns: the features of trees that depend on the device, as ratios of what a configuration needs.

They are computed from names that kernel families declare; a family without a name gets the number for unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.tuner.cost_models.encoding import LARGEST
from seqtune.tuner.cost_models.machine_ratios import cache_bytes, machine_ratios, workers

UNKNOWN = -1.0  # the number for a feature that a problem or a device lacks; features are never negative
REGISTERS = ("accumulators", "registers", "registers_used")  # names of vector registers that a tile needs
TASKS = ("tasks", "work_groups")  # names of the pieces that workers share
MOST_THREADS = 2  # more threads than any training data has count as these: trees cannot extrapolate

Columns = Mapping[str, NDArray[Any]]  # by parameter or derived quantity, as `SearchSpace.columns` gives them


def working_sets(kernel: Kernel) -> list[str]:
    """The kernel's derived quantities that are bytes: of a panel, of the input of a chunk, of all weights."""
    return [name for name, _ in kernel.derived if name.endswith("_bytes")]


def machine_columns(kernel: Kernel, problem: Problem, device: Device, columns: Columns,
                    count: int) -> NDArray[np.float32]:
    """The features (row, feature) of `count` configurations, whose columns are given."""
    ratios: list[NDArray[np.float64] | float] = []
    for name in working_sets(kernel):
        ratios += [_ratio(columns.get(name), size) for size in cache_bytes(device)]
    ratios += [_ratio(_first(columns, (name,)), device.vector_registers) for name in REGISTERS
               if name in columns]
    ratios.append(_ratio(_first(columns, ("vector",)), device.vector_floats))
    known = machine_ratios(problem, device)
    tasks, at_peak = _first(columns, TASKS), known["peak_microseconds"]
    ratios.append(UNKNOWN if tasks is None or at_peak is None  # microseconds of a task at the peak of one worker
                  else at_peak * workers(device) / np.maximum(tasks.astype(np.float64), 1.0))
    ratios += [UNKNOWN if ratio is None else ratio for ratio in known.values()]
    ratios += [float(min(device.threads, MOST_THREADS)), float(device.vector_floats), float(device.vector_registers)]
    table = np.empty((count, len(ratios)))
    for column, ratio in enumerate(ratios):
        table[:, column] = ratio
    return np.minimum(np.nan_to_num(table, copy=False, nan=UNKNOWN), LARGEST).astype(np.float32)


def _first(columns: Columns, names: Sequence[str]) -> NDArray[Any] | None:
    """The first of the named columns that the kernel has and that holds numbers."""
    for name in names:
        if name in columns and columns[name].dtype.kind in "biuf":
            return columns[name]
    return None


def _ratio(numbers: NDArray[Any] | None, divisor: int) -> NDArray[np.float64] | float:
    return UNKNOWN if numbers is None or numbers.dtype.kind not in "biuf" or not divisor \
        else numbers.astype(np.float64) / divisor
