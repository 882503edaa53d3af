"""Labels and solver timings: MIOpen's chosen configurations and its solvers' times, as arrays for learning.

A problem is on the same side, training or held out, for every GPU, solver and file, even if some sizes are unknown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seqtune.data.dataset import Dataset, configuration
from seqtune.data.record import Status
from seqtune.errors import FormatError
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem_sets.columns import ProblemColumns

from ..formats.importing import solver_of
from ..formats.terms import as_convnd, miopen_terms
from ..kernels.solver import PREFIX, SOLVERS
from .source_columns import Pair

HELD_OUT = 10  # one of this many problems is held out
TIMED = np.uint64(0x52414345)  # arbitrary bits: who has learned a problem's labels has not learned its timings


@dataclass(frozen=True, eq=False)
class Queries:
    """Problems on devices."""

    problems: NDArray[np.object_]  # (query,) Problem
    devices: NDArray[np.object_]  # (query,) Device
    hashes: NDArray[np.uint64]  # (query,) of the problem's key in MIOpen's terms

    @classmethod
    def of(cls, pairs: Sequence[Pair]) -> Queries:
        """The queries of (problem, device) pairs, at least one. Raises ProblemError if MIOpen cannot run a problem."""
        problems, devices = (np.fromiter(part, object, len(pairs)) for part in zip(*pairs, strict=True))
        terms = miopen_terms(ProblemColumns.of(list(map(as_convnd, problems))))
        digests = [hashlib.blake2b("x".join(map(str, words)).encode(), digest_size=8).digest() for words in terms]
        return Queries(problems, devices, np.frombuffer(b"".join(digests), "<u8"))

    def __len__(self) -> int:
        return len(self.problems)

    def take(self, rows: NDArray[Any]) -> Self:
        """Copy the queries of the given rows or of a mask, with all that is known of them."""
        arrays = {name: value[rows] for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return replace(self, **arrays)

    def pairs(self) -> list[Pair]:
        """The queries as a list of (problem, device) pairs."""
        return list(zip(self.problems.tolist(), self.devices.tolist(), strict=True))

    def by_device(self) -> dict[str, Self]:
        """The queries by the name of their device, in order of first appearance."""
        names = np.array([device.name for device in self.devices])
        return {name: self.take(names == name) for name in dict.fromkeys(names.tolist())}

    @property
    def held_out(self) -> NDArray[np.bool_]:
        """A mask of the queries whose problem is held out, (query,)."""
        return np.asarray(self.hashes % HELD_OUT == 0)


@dataclass(frozen=True, eq=False)
class Labels(Queries):
    """Queries with the chosen configurations of one kernel, as indices of the parameters' values."""

    kernel: Kernel
    value_indices: NDArray[np.int16]  # (query, parameter); -1: a value that the kernel does not have

    def for_kernel(self, kernel: Kernel) -> Labels:
        """The same labels for another version of the kernel, whose parameters may have other values."""
        old_and_new = zip(self.kernel.parameters, kernel.parameters, self.value_indices.T, strict=True)
        columns = [np.array([*(new.indices.get(value, -1) for value in old.indices), -1], np.int16)[indices]
                   for old, new, indices in old_and_new]
        return replace(self, kernel=kernel, value_indices=np.stack(columns, axis=1))


@dataclass(frozen=True, eq=False)
class SolverTimings(Queries):
    """Queries with the best time of each solver."""

    names: tuple[str, ...]  # kernel names of the solvers: `miopen.GemmFwd1x1_0_1`
    seconds: NDArray[np.float32]  # (query, solver); infinite if the solver was not timed


def read_labels(data: Dataset) -> dict[str, Labels]:
    """The labels of a data set, by kernel, in the order of the solvers' table. Raises FormatError and KernelError."""
    rows = data.rows[data.rows["status"] == Status.CHOSEN.value]
    queries, kernels, labels = _queries(data, rows), rows["kernel"].to_numpy(), {}
    for name in (PREFIX + name for name in SOLVERS):
        rows_of_kernel = np.flatnonzero(kernels == name)
        if len(rows_of_kernel):
            kernel = solver_of(data, name.removeprefix(PREFIX)).kernel
            codes, texts = pd.factorize(rows["configuration"].to_numpy()[rows_of_kernel])
            chosen = [configuration(name, str(text)) for text in texts]
            try:
                indices = [[parameter.index(own[parameter.name]) for parameter in kernel.parameters] for own in chosen]
            except (KeyError, TypeError):
                raise FormatError(f"the data set has labels that are no configurations of {name}") from None
            labels[name] = Labels(**vars(queries.take(rows_of_kernel)), kernel=kernel,
                                  value_indices=np.array(indices, np.int16)[codes])
    return labels


def read_solver_timings(data: Dataset) -> SolverTimings:
    """The solver timings of a data set's find-dbs. A solver's shortest time counts."""
    rows = data.rows[(data.rows["status"] == Status.CORRECT.value) & (data.rows["configuration"] == "{}")]
    solver, names = pd.factorize(rows["kernel"].to_numpy(), sort=True)
    query = rows.groupby(["device", "problem"], sort=False, observed=True).ngroup().to_numpy()
    first = np.unique(query, return_index=True)[1]
    seconds = np.full((len(first), len(names)), np.inf, np.float32)
    np.minimum.at(seconds, (query, solver), rows["seconds"].to_numpy(np.float32))
    return SolverTimings(**vars(_queries(data, rows.iloc[first])), names=tuple(map(str, names)), seconds=seconds)


def _queries(data: Dataset, rows: pd.DataFrame) -> Queries:
    """The queries of rows; of a problem that many rows have, the key is hashed once."""
    problem, keys = pd.factorize(rows["problem"].to_numpy())
    devices = np.fromiter((data.devices[str(name)] for name in rows["device"]), object, len(rows))
    distinct = [(data.known_problems[str(key)], devices[0]) for key in keys]
    return replace(Queries.of(distinct).take(problem), devices=devices) if distinct else Queries(
        devices, devices, np.zeros(0, np.uint64))
