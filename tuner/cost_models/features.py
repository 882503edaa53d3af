"""Features: the one table of numbers that describe a configuration to boosted trees.

The shipped forests of the predictor and the cost models that a search fits read the same table with the same order and
coding. The columns are, in this order: the parameters (for words the index of the value), the kernel's derived
quantities, for each size that tiles divide and each parameter the share that padding adds and the number of tiles
(trees cannot compute quotients themselves), the terms of the analytic model for kernels that describe their tiles, the
features of the problem, and what depends on the device: ratios of what a configuration needs to what the device has.
No name of a parameter has a meaning; the names of derived quantities below have one.

Shipped forests depend on order and coding bit by bit, so new columns need new checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.arithmetic import numbers_of
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Floats

from .analytic import Columns, term_columns
from .encoding import LARGEST, encode_facts, encode_features, tiling, word_codes
from .machine_ratios import cache_bytes, machine_ratios, workers

UNKNOWN = -1.0  # the number for a feature that a problem or a device lacks; features are never negative
REGISTERS = ("accumulators", "registers", "registers_used")  # names of vector registers that a tile needs
TASKS = ("tasks", "work_groups")  # names of the pieces that workers share
MOST_THREADS = 2  # more threads than any training data has count as these: trees cannot extrapolate
MOST_KEPT = 256  # rows of a table that is kept: more than any task has candidates

FeatureList = Literal["facts", "ratios"]  # what describes a device: its facts (older checkpoints), or ratios
Table = NDArray[np.float32]  # (row, feature)

_LATEST: WeakKeyDictionary[SearchSpace, tuple[Numbers, FeatureList, Table]] = WeakKeyDictionary()


def features(space: SearchSpace, rows: Numbers | None = None, listed: FeatureList = "ratios") -> Table:
    """The features of some rows of a space, in any order (None: of all); all spaces of a kernel family have the same.

    Features that depend on the device come last.
    """
    chosen = space if rows is None else space.at(rows)
    columns = chosen.columns()
    return np.hstack([own_features(chosen, columns), device_features(chosen, columns, chosen.device, listed)])


def feature_table(space: SearchSpace, rows: Numbers, listed: FeatureList = "ratios") -> Table:
    """The features of rows of a space, as `features` computes them: (row, feature), read-only.

    Trees and Gaussian processes are asked about the same candidates, one after the other, so the latest table of each
    space is kept. The caller must not change `rows` afterwards, since they are kept beside the table.
    """
    latest = _LATEST.get(space)
    if latest is not None and latest[1] == listed and np.array_equal(latest[0], rows):
        return latest[2]
    table = features(space, rows, listed)
    table.setflags(write=False)
    if len(rows) <= MOST_KEPT:
        _LATEST[space] = rows, listed, table
    return table


def own_features(space: SearchSpace, columns: Columns) -> Table:
    """The features of configurations and problem that do not depend on the device's measured rates."""
    count, problem, parameters = len(space), space.problem, space.kernel.parameters
    table: list[NDArray[np.float32]] = []
    numeric: list[NDArray[np.float32]] = []
    with np.errstate(over="ignore"):  # too large numbers become infinite
        for index, (parameter, kind) in enumerate(zip(parameters, parameter_kinds(space.kernel), strict=True)):
            values = columns[parameter.name] if kind != "word" else space.rows[:, index]
            table.append(values.astype(np.float32))
            if kind == "length":
                numeric.append(table[-1])
        for name, _ in space.kernel.derived:
            values = columns[name]
            codes = numbers_of(values)
            codes = word_codes(space.kernel, name, values) if codes is None else codes
            table.append(codes.astype(np.float32))
        names = problem.names()
        lengths = np.array(numeric) if numeric else np.empty((0, count), np.float32)  # (numeric parameter, row)
        for name in operation(problem.type).tiled_sizes:
            size = names.get(name)
            if isinstance(size, int) and size > 0:
                tiles, padded = tiling(size, lengths)
                table += [column for pair in zip(padded, tiles, strict=True) for column in pair]
            else:
                table += [np.full(count, UNKNOWN, np.float32)] * (2 * len(numeric))
        table += [values.astype(np.float32) for values in term_columns(space, columns)]
    return np.nan_to_num(np.array(table, np.float32).T, copy=False, nan=UNKNOWN, posinf=LARGEST, neginf=-LARGEST)


@lru_cache(maxsize=1024)
def parameter_kinds(kernel: Kernel) -> tuple[str, ...]:
    """The kind of each parameter: a word, a length that sizes are divided by, or another number."""
    return tuple("word" if not parameter.is_numeric else "length" if max(map(int, parameter.values)) > 2 else "number"
                 for parameter in kernel.parameters)


def device_features(space: SearchSpace, columns: Columns, device: Device, listed: FeatureList) -> Table:
    """The features that depend on the device, which may be another one than the space's."""
    if listed == "ratios":
        return np.hstack([_fixed(encode_features(space.problem, UNKNOWN), len(space)),
                          _device_ratios(space.kernel, space.problem, device, columns, len(space))])
    return _fixed(encode_facts(space.problem, device, "vector_floats", UNKNOWN), len(space))


def _fixed(numbers: Sequence[float], count: int) -> Table:
    return np.broadcast_to(np.array(numbers, np.float32), (count, len(numbers)))


def working_sets(kernel: Kernel) -> list[str]:
    """The kernel's derived quantities that are bytes: of a panel, of the input of a chunk, of all weights."""
    return [name for name, _ in kernel.derived if name.endswith("_bytes")]


def _device_ratios(kernel: Kernel, problem: Problem, device: Device, columns: Columns, count: int) -> Table:
    """The needs of `count` configurations, divided by what the device has; unknown names give UNKNOWN."""
    ratios: list[Floats | float] = []
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


def _ratio(numbers: NDArray[Any] | None, divisor: int) -> Floats | float:
    return UNKNOWN if numbers is None or numbers.dtype.kind not in "biuf" or not divisor \
        else numbers.astype(np.float64) / divisor
