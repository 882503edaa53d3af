"""Labels and solver timings: a foreign tuner's chosen configurations and its solvers' times, as arrays for learning."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seqtune.errors import FormatError
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.miopen.solver import BACKEND, PREFIX, SOLVERS

from .dataset import Dataset
from .formats.miopen_import import solver_of
from .queries import DistinctProblems, Queries, Rows
from .record import Status

TIMINGS_BITS = np.uint64(0x52414345)  # arbitrary; they make the hash of timings differ from the hash of a label


@dataclass(frozen=True, eq=False)
class Labels:
    """Chosen configurations of one kernel, one for each query, as indices of the parameters' values.
    """

    kernel: Kernel
    queries: Queries
    value_indices: NDArray[np.int16]  # (label, parameter); -1: a value that the kernel does not have

    def __len__(self) -> int:
        return len(self.value_indices)

    def take(self, rows: Rows) -> Labels:
        """Copy the given labels, in the given order."""
        return replace(self, queries=self.queries.take(rows), value_indices=self.value_indices[rows])

    def known(self) -> Labels:
        """Copy the labels with only values that the kernel has."""
        return self.take(np.flatnonzero((self.value_indices >= 0).all(axis=1)))

    def split(self) -> tuple[Labels, Labels]:
        """Split into the labels for training and the labels of held-out problems."""
        held_out = self.queries.held_out
        return self.take(np.flatnonzero(~held_out)), self.take(np.flatnonzero(held_out))

    def for_kernel(self, kernel: Kernel) -> Labels:
        """The same labels for another version of the kernel, whose parameters may have other values."""
        if kernel == self.kernel:
            return self
        value_indices = np.empty_like(self.value_indices)
        for column, parameter in enumerate(self.kernel.parameters):
            index = kernel.parameters[column].indices
            new_indices = np.array([*(index.get(value, -1) for value in parameter.indices), -1], np.int16)
            value_indices[:, column] = new_indices[self.value_indices[:, column]]
        return replace(self, kernel=kernel, value_indices=value_indices)


@dataclass(frozen=True, eq=False)
class SolverTimings:
    """Solver timings: group i holds the best time of each solver for query i, entries [starts[i], starts[i + 1])."""

    names: tuple[str, ...]  # kernel names of the solvers: `miopen.GemmFwd1x1_0_1`
    queries: Queries
    starts: NDArray[np.int64]  # (group + 1,)
    solver: NDArray[np.int64]  # (entry,) index into `names`
    seconds: NDArray[np.float64]  # (entry,)

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """The hash of each query's timings, which differs from the hash of the same problem's labels."""
        return self.queries.hashes ^ TIMINGS_BITS

    def take(self, rows: Rows) -> SolverTimings:
        """Copy the given timings, in the given order."""
        lengths = np.diff(self.starts)[rows]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        entries = np.repeat(self.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
        return replace(self, queries=self.queries.take(rows), starts=starts, solver=self.solver[entries],
                       seconds=self.seconds[entries])

    def named(self, names: tuple[str, ...]) -> SolverTimings:
        """The same timings, with solvers numbered by `names`, such as a model's, before all other solvers."""
        all_names = tuple(dict.fromkeys((*names, *self.names)))
        index = {name: number for number, name in enumerate(all_names)}
        new_solver = np.array([index[name] for name in self.names], np.int64)
        return replace(self, names=all_names, solver=new_solver[self.solver])


def holds_labels(data: Dataset) -> bool:
    """Whether a data set holds another tuner's choices or its solvers' times instead of measurements."""
    return bool(len(data)) and all(device.backend == BACKEND for device in data.devices.values())


def read_labels(data: Dataset) -> dict[str, Labels]:
    """The labels of a data set, by kernel, in the order of the solvers' table. Raises FormatError and KernelError."""
    rows = data.rows[data.rows["status"] == Status.CHOSEN.value]
    if rows.empty:
        return {}
    queries = _queries(data, rows)
    kernels = rows["kernel"].to_numpy()
    labels = {}
    for name in (PREFIX + name for name in SOLVERS):
        label_rows = np.flatnonzero(kernels == name)
        if len(label_rows):
            kernel = solver_of(data, name.removeprefix(PREFIX)).kernel
            codes, texts = pd.factorize(rows["configuration"].to_numpy()[label_rows])
            value_indices = np.array([_value_indices(kernel, str(text)) for text in texts], np.int16)
            labels[name] = Labels(kernel, queries.take(label_rows), value_indices[codes])
    return labels


def read_solver_timings(data: Dataset) -> SolverTimings | None:
    """The solver timings of a data set's find-dbs; None if there are none. A solver's shortest time counts."""
    rows = data.rows[(data.rows["status"] == Status.CORRECT.value) & (data.rows["configuration"] == "{}")]
    if rows.empty:
        return None
    queries = _queries(data, rows)
    solver, names = pd.factorize(rows["kernel"].to_numpy(), sort=True)
    seconds = rows["seconds"].to_numpy(np.float64)
    order = np.lexsort((seconds, solver, queries.problem, queries.device))
    key = np.stack([queries.device, queries.problem, solver], axis=1)[order]
    fresh = np.concatenate(([True], (key[1:] != key[:-1]).any(axis=1)))
    order, key = order[fresh], key[fresh]
    first = np.flatnonzero(np.concatenate(([True], (key[1:, :2] != key[:-1, :2]).any(axis=1))))
    return SolverTimings(tuple(map(str, names)), queries.take(order[first]), np.append(first, len(order)), key[:, 2],
                 seconds[order])


def _queries(data: Dataset, rows: pd.DataFrame) -> Queries:
    problem, keys = pd.factorize(rows["problem"].to_numpy())
    device, names = pd.factorize(rows["device"].to_numpy())
    return Queries(DistinctProblems.of([data.known_problems[str(key)] for key in keys]),
                     tuple(data.devices[str(name)] for name in names), problem, device)


def _value_indices(kernel: Kernel, text: str) -> list[int]:
    try:
        settings = json.loads(text)
        return [parameter.index(settings[parameter.name]) for parameter in kernel.parameters]
    except (ValueError, KeyError, TypeError):
        raise FormatError(f"not a configuration of {kernel.name}: {text:.80}") from None
