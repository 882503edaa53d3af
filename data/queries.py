"""Queries: (problem, device) pairs as columns, with the split into training and held-out problems.

The split hashes the problem's key in MIOpen's perf-db, so a problem is on the same side for every GPU, solver and file,
even if some of its sizes are unknown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns

from .formats.miopen_terms import as_convnd, miopen_terms

Rows = NDArray[Any]
HELD_OUT = 10  # one of this many problems is held out


@dataclass(frozen=True, eq=False)
class DistinctProblems:
    """Distinct convolutions, as Problem objects and as columns."""

    problems: Sequence[Problem]
    columns: ProblemColumns

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> DistinctProblems:
        """The columns of `conv2d` and `convnd` problems, at least one. Raises ProblemError if MIOpen cannot run one."""
        return cls(problems, ProblemColumns.of([as_convnd(problem) for problem in problems]))

    @cached_property
    def hashes(self) -> NDArray[np.uint64]:
        """The hashes of the problems' keys in MIOpen's terms, (problem,). Raises ProblemError if a key is unknown."""
        words = ["x".join(map(str, terms)).encode() for terms in miopen_terms(self.columns)]
        digests = b"".join(hashlib.blake2b(word, digest_size=8).digest() for word in words)
        return np.frombuffer(digests, "<u8")

    def take(self, rows: Rows) -> DistinctProblems:
        """Copy the given rows, in the given order."""
        return DistinctProblems([self.problems[row] for row in rows.tolist()], self.columns.take(rows))


@dataclass(frozen=True, eq=False)
class Queries:
    """(problem, device) pairs: `problem` and `device` are indices into `problems` and `devices`, (query,)."""

    problems: DistinctProblems
    devices: tuple[Device, ...]
    problem: NDArray[np.int64]
    device: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.problem)

    @classmethod
    def of(cls, pairs: Sequence[tuple[Problem, Device]]) -> Queries:
        """The queries of (problem, device) pairs, the form of the beam search."""
        problems = {problem: index for index, problem in enumerate(dict.fromkeys(problem for problem, _ in pairs))}
        devices = {device: index for index, device in enumerate(dict.fromkeys(device for _, device in pairs))}
        return cls(DistinctProblems.of(list(problems)), tuple(devices),
                   np.array([problems[problem] for problem, _ in pairs]),
                   np.array([devices[device] for _, device in pairs]))

    def take(self, rows: Rows) -> Queries:
        """Copy the given queries, in the given order."""
        return replace(self, problem=self.problem[rows], device=self.device[rows])

    def compact(self) -> Queries:
        """The same queries without the problems that no query refers to."""
        used, problem = np.unique(self.problem, return_inverse=True)
        if len(used) == len(self.problems.problems):
            return self
        return replace(self, problems=self.problems.take(used), problem=problem)

    def pairs(self) -> list[tuple[Problem, Device]]:
        """The queries as a list of (problem, device) pairs."""
        return [(self.problems.problems[problem], self.devices[device])
                for problem, device in zip(self.problem.tolist(), self.device.tolist(), strict=True)]

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """The hash of each query's problem, (query,)."""
        return self.problems.hashes[self.problem]

    @property
    def held_out(self) -> NDArray[np.bool_]:
        """A mask of the queries whose problem is held out, (query,)."""
        return np.asarray(self.hashes % HELD_OUT == 0)
