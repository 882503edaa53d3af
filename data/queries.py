"""Questions: problems, each on a device, as columns; and which problems are held out.

A problem is held out by a hash of the key that MIOpen's perf-db gives it, so it is on the same side for every GPU,
solver and file, whether or not its sizes are all known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns

from .formats.miopen_terms import as_convnd, miopen_terms

Rows = NDArray[Any]
HELD_OUT = 10  # one problem in so many is held out


@dataclass(frozen=True, eq=False)
class Problems:
    """Distinct convolutions, one by one and as columns."""

    made: Sequence[Problem]
    columns: ProblemColumns

    @classmethod
    def of(cls, made: Sequence[Problem]) -> Problems:
        """Of `conv2d` and `convnd` problems, at least one. Raises ProblemError where MIOpen has no such problem."""
        return cls(made, ProblemColumns.of([as_convnd(problem) for problem in made]))

    @cached_property
    def hashes(self) -> NDArray[np.uint64]:
        """Of their keys in MIOpen's terms, (problem,). Raises ProblemError where MIOpen has no such problem."""
        words = ["x".join(map(str, terms)).encode() for terms in miopen_terms(self.columns)]
        digests = b"".join(hashlib.blake2b(word, digest_size=8).digest() for word in words)
        return np.frombuffer(digests, "<u8")

    def take(self, rows: Rows) -> Problems:
        """Those problems, in that order."""
        return Problems([self.made[row] for row in rows.tolist()], self.columns.take(rows))


@dataclass(frozen=True, eq=False)
class Questions:
    """Problems, each on a device: `problem` and `device` are places in `problems` and `devices`, (question,)."""

    problems: Problems
    devices: tuple[Device, ...]
    problem: NDArray[np.int64]
    device: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.problem)

    @classmethod
    def of(cls, asked: Sequence[tuple[Problem, Device]] | Questions) -> Questions:
        """Of some pairs, as the beam search asks them."""
        if isinstance(asked, Questions):
            return asked
        problems = {problem: place for place, problem in enumerate(dict.fromkeys(problem for problem, _ in asked))}
        devices = {device: place for place, device in enumerate(dict.fromkeys(device for _, device in asked))}
        return cls(Problems.of(list(problems)), tuple(devices), np.array([problems[one] for one, _ in asked]),
                   np.array([devices[one] for _, one in asked]))

    def take(self, rows: Rows) -> Questions:
        """Those questions, in that order."""
        return replace(self, problem=self.problem[rows], device=self.device[rows])

    def compact(self) -> Questions:
        """The same questions without the problems that none of them names."""
        used, problem = np.unique(self.problem, return_inverse=True)
        if len(used) == len(self.problems.made):
            return self
        return replace(self, problems=self.problems.take(used), problem=problem)

    def pairs(self) -> list[tuple[Problem, Device]]:
        """One by one."""
        return [(self.problems.made[problem], self.devices[device])
                for problem, device in zip(self.problem.tolist(), self.device.tolist(), strict=True)]

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """Of their problems."""
        return self.problems.hashes[self.problem]

    @property
    def held_out(self) -> NDArray[np.bool_]:
        """Whether their problems are held out."""
        return np.asarray(self.hashes % HELD_OUT == 0)
