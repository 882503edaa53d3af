"""Labels: what a foreign tuner chose and how fast its solvers were, as arrays to learn from."""

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
from .queries import Problems, Questions, Rows
from .record import Status

RACE = np.uint64(0x52414345)  # any bits: they tell the hash of a race from that of a label


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

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """Of the races: others than those of the same problems' labels, which times tell nothing of."""
        return self.questions.hashes ^ RACE

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


def holds_labels(data: Dataset) -> bool:
    """Whether a data set holds another tuner's choices, or its solvers' times, rather than measurements."""
    return bool(len(data)) and all(device.backend == BACKEND for device in data.devices.values())


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
