"""Labels: what a foreign tuner chose and how fast its solvers were, as arrays to learn from.

A problem is held out by a hash of the key that MIOpen's perf-db gives it, so it is on the same side for every GPU,
solver and file, whether or not its sizes are all known.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seqtune.errors import FormatError
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.miopen import PREFIX, SOLVERS
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_columns import ProblemColumns

from .dataset import Dataset
from .miopen import solver_of
from .miopen_terms import as_convnd, miopen_terms
from .record import Status

Rows = NDArray[Any]
HELD_OUT = 10  # one problem in so many is held out


@dataclass(frozen=True, eq=False)
class Problems:
    """Distinct convolutions, one by one and as columns; `hashes` are of their keys in MIOpen's terms."""

    made: Sequence[Problem]
    columns: ProblemColumns
    hashes: NDArray[np.uint64]

    @classmethod
    def of(cls, made: Sequence[Problem]) -> Problems:
        """Of `conv2d` and `convnd` problems, at least one. Raises ProblemError where MIOpen has no such problem."""
        columns = ProblemColumns.of([as_convnd(problem) for problem in made])
        words = ["x".join(map(str, terms)).encode() for terms in miopen_terms(columns)]
        digests = b"".join(hashlib.blake2b(word, digest_size=8).digest() for word in words)
        return cls(made, columns, np.frombuffer(digests, "<u8"))

    def take(self, rows: Rows) -> Problems:
        """Those problems, in that order."""
        return Problems([self.made[row] for row in rows.tolist()], self.columns.take(rows), self.hashes[rows])


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
    def of(cls, asked: Sequence[tuple[Problem, Device]]) -> Questions:
        """Of some pairs, as the beam search asks them."""
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


@dataclass(frozen=True, eq=False)
class Labels:
    """Chosen configurations of one kernel: `places[i]` are places in the parameters' values, for question i.

    A place is -1 where the kernel does not know the value.
    """

    kernel: Kernel
    questions: Questions
    places: NDArray[np.int16]  # (label, parameter)

    def __len__(self) -> int:
        return len(self.places)

    def take(self, rows: Rows) -> Labels:
        """Those labels, in that order."""
        return replace(self, questions=self.questions.take(rows), places=self.places[rows])

    def known(self) -> Labels:
        """Those of which the kernel knows every value."""
        return self.take(np.flatnonzero((self.places >= 0).all(axis=1)))

    def split(self) -> tuple[Labels, Labels]:
        """Training labels, and those of held-out problems."""
        held_out = self.questions.held_out
        return self.take(np.flatnonzero(~held_out)), self.take(np.flatnonzero(held_out))

    def spoken_by(self, kernel: Kernel) -> Labels:
        """The same labels of another version of the kernel, which may know other values."""
        if kernel == self.kernel:
            return self
        places = np.empty_like(self.places)
        for column, parameter in enumerate(self.kernel.parameters):
            index = {value: place for place, value in enumerate(kernel.parameters[column].values)}
            there = np.array([*(index.get(value, -1) for value in parameter.values), -1], np.int16)
            places[:, column] = there[self.places[:, column]]
        return replace(self, kernel=kernel, places=places)


@dataclass(frozen=True, eq=False)
class Races:
    """Best times of solvers: race i is question i, its entries are [starts[i], starts[i + 1])."""

    names: tuple[str, ...]  # of the solvers, as kernels: `miopen.GemmFwd1x1_0_1`
    questions: Questions
    starts: NDArray[np.int64]  # (race + 1,)
    solver: NDArray[np.int64]  # (entry,) place in `names`
    seconds: NDArray[np.float64]  # (entry,)

    def __len__(self) -> int:
        return len(self.questions)

    def take(self, rows: Rows) -> Races:
        """Those races, in that order."""
        lengths = np.diff(self.starts)[rows]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        entries = np.repeat(self.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
        return replace(self, questions=self.questions.take(rows), starts=starts, solver=self.solver[entries],
                       seconds=self.seconds[entries])

    def named(self, names: tuple[str, ...]) -> Races:
        """The same with solvers numbered by `names`, of which others come last: a model's solvers, say."""
        every = tuple(dict.fromkeys((*names, *self.names)))
        place = {name: number for number, name in enumerate(every)}
        return replace(self, names=every, solver=np.array([place[name] for name in self.names], np.int64)[self.solver])


def read_labels(data: Dataset) -> dict[str, Labels]:
    """The labels of a data set by kernel, in the order of the solvers' table. Raises FormatError, KernelError."""
    rows = data.rows[data.rows["status"] == Status.CHOSEN.value]
    if rows.empty:
        return {}
    questions = _questions(data, rows)
    kernels = rows["kernel"].to_numpy()
    found = {}
    for name in (PREFIX + name for name in SOLVERS):
        mine = np.flatnonzero(kernels == name)
        if len(mine):
            kernel = solver_of(data, name.removeprefix(PREFIX)).kernel
            codes, texts = pd.factorize(rows["configuration"].to_numpy()[mine])
            places = np.array([_places(kernel, str(text)) for text in texts], np.int16)
            found[name] = Labels(kernel, questions.take(mine), places[codes])
    return found


def read_races(data: Dataset) -> Races | None:
    """The times of a data set's find-dbs; None where it has none. Of several times of one solver, the least counts."""
    rows = data.rows[(data.rows["status"] == Status.CORRECT.value) & (data.rows["configuration"] == "{}")]
    if rows.empty:
        return None
    questions = _questions(data, rows)
    solver, names = pd.factorize(rows["kernel"].to_numpy(), sort=True)
    seconds = rows["seconds"].to_numpy(np.float64)
    order = np.lexsort((seconds, solver, questions.problem, questions.device))
    key = np.stack([questions.device, questions.problem, solver], axis=1)[order]
    fresh = np.concatenate(([True], (key[1:] != key[:-1]).any(axis=1)))
    order, key = order[fresh], key[fresh]
    first = np.flatnonzero(np.concatenate(([True], (key[1:, :2] != key[:-1, :2]).any(axis=1))))
    return Races(tuple(map(str, names)), questions.take(order[first]), np.append(first, len(order)), key[:, 2],
                 seconds[order])


def _questions(data: Dataset, rows: pd.DataFrame) -> Questions:
    problem, keys = pd.factorize(rows["problem"].to_numpy())
    device, names = pd.factorize(rows["device"].to_numpy())
    return Questions(Problems.of([data.known_problems[str(key)] for key in keys]),
                     tuple(data.devices[str(name)] for name in names), problem, device)


def _places(kernel: Kernel, text: str) -> list[int]:
    try:
        settings = json.loads(text)
        return [parameter.values.index(settings[parameter.name]) for parameter in kernel.parameters]
    except (ValueError, KeyError, TypeError):
        raise FormatError(f"not a configuration of {kernel.name}: {text:.80}") from None
