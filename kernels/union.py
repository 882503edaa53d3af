"""Union: the configurations of all spaces of one problem under one numbering, with their neighbours.

Numbers count the spaces through in order, as in `numbered`. Two configurations are neighbours where they belong to the
same kernel and differ in one parameter. Numbers have an order, and words have none, but a place in it all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .enumeration import Rows
from .kernel import Configuration, Parameter, Setting
from .space import SearchSpace

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """The configurations that differ from one in one parameter each."""

    numbers: Numbers
    columns: NDArray[np.int64]  # which parameter differs
    steps: NDArray[np.int64]  # -1: the next smaller valid value of it, 2: the next but one larger, ...; 1 for all words


def is_numeric(parameter: Parameter) -> bool:
    """Whether all of the values are numbers."""
    return not any(isinstance(value, str) for value in parameter.values)


class Rowfinder:
    """Finds rows of a table of places by hashing: the table's hashes are sorted once."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        weights = np.random.default_rng(0).integers(1, 2**63, rows.shape[1], dtype=np.uint64)
        self._weights: NDArray[np.uint64] = np.bitwise_or(weights, np.uint64(1))
        hashes = self._hash(rows)
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    def _hash(self, rows: NDArray[Any]) -> NDArray[np.uint64]:
        found = np.zeros(len(rows), np.uint64)
        for column in range(rows.shape[1]):
            found += rows[:, column].astype(np.uint64) * self._weights[column]  # wraps around
        return found

    def find(self, wanted: NDArray[Any]) -> Numbers:
        """The number of each wanted row; -1 where there is none."""
        place = np.minimum(np.searchsorted(self._hashes, self._hash(wanted)), len(self.rows) - 1)
        found = self._order[place].astype(np.int64)
        found[(self.rows[found] != wanted).any(axis=1)] = -1
        return found


class Union:
    """All configurations of the spaces, numbered from 0."""

    def __init__(self, spaces: Sequence[SearchSpace]) -> None:
        self.spaces = tuple(spaces)
        self.ends = np.cumsum([len(space) for space in spaces])
        self.begins = self.ends - [len(space) for space in spaces]
        self._finders: dict[int, Rowfinder] = {}
        self._ranks = [[_ranks(parameter) for parameter in space.kernel.parameters] for space in spaces]

    def __len__(self) -> int:
        return int(self.ends[-1])

    def home(self, number: int) -> tuple[int, int]:
        """Which space a number belongs to, and its row there."""
        place = int(np.searchsorted(self.ends, number, side="right"))
        return place, int(number - self.begins[place])

    def __getitem__(self, number: int) -> Configuration:
        place, row = self.home(number)
        return self.spaces[place][row]

    def number(self, configuration: Configuration) -> int | None:
        """The number of a configuration, None where it is in no space."""
        for space, begin in zip(self.spaces, self.begins, strict=True):
            if configuration in space:
                return int(begin) + space.row(configuration)
        return None

    def finder(self, place: int) -> Rowfinder:
        """Finds rows of that space; made when it is first asked for."""
        if place not in self._finders:
            self._finders[place] = Rowfinder(self.spaces[place].rows)
        return self._finders[place]

    def neighbours(self, number: int) -> Neighbours:
        """All neighbours of one configuration."""
        place, row = self.home(number)
        rows = self.spaces[place].rows
        apart = rows != rows[row]
        near = np.flatnonzero(apart.sum(axis=1) == 1)
        columns = apart[near].argmax(axis=1).astype(np.int64)
        steps = np.ones(len(near), np.int64)
        for column in np.unique(columns).tolist():
            if is_numeric(self.spaces[place].kernel.parameters[column]):
                mine = np.flatnonzero(columns == column)
                ranks = self._ranks[place][column]
                away = ranks[rows[near[mine], column]] - ranks[rows[row, column]]
                order = np.argsort(away)
                below = int((away < 0).sum())
                steps[mine[order]] = np.arange(len(mine)) + np.where(np.arange(len(mine)) < below, -below, 1 - below)
        return Neighbours(near + int(self.begins[place]), columns, steps)

    def apart(self, number: int, others: Numbers) -> NDArray[np.int64]:
        """In how many parameters each of the others differs from one; of different kernels, in all."""
        place, row = self.home(number)
        rows, begin = self.spaces[place].rows, int(self.begins[place])
        found = np.full(len(others), rows.shape[1], np.int64)
        mine = (others >= begin) & (others < self.ends[place])
        found[mine] = (rows[others[mine] - begin] != rows[row]).sum(axis=1)
        return found

    def step(self, numbers: Numbers, generator: np.random.Generator, tries: int = 8) -> Numbers:
        """A random neighbour of each configuration; itself where `tries` changes of one parameter were not valid."""
        found = numbers.copy()
        for place, (begin, end) in enumerate(zip(self.begins.tolist(), self.ends.tolist(), strict=True)):
            mine = np.flatnonzero((numbers >= begin) & (numbers < end))
            sizes = np.array([len(one.values) for one in self.spaces[place].kernel.parameters])
            live = np.flatnonzero(sizes > 1)
            for _ in range(tries if len(live) else 0):
                if not len(mine):
                    break
                rows = self.spaces[place].rows[numbers[mine] - begin].copy()
                column = live[generator.integers(len(live), size=len(mine))]
                here = np.arange(len(mine))
                rows[here, column] = (rows[here, column] + generator.integers(1, sizes[column])) % sizes[column]
                moved = self.finder(place).find(rows)
                found[mine[moved >= 0]] = moved[moved >= 0] + begin
                mine = mine[moved < 0]
        return found


def _ranks(parameter: Parameter) -> NDArray[np.int64]:
    """The place of each value in ascending order; of words, where they stand."""
    if not is_numeric(parameter):
        return np.arange(len(parameter.values))
    return np.argsort(np.argsort(np.array(parameter.values)))



def find_rows(space: SearchSpace, settings: Sequence[Mapping[str, Setting]]) -> NDArray[np.int64]:
    """The row of each configuration in the space, -1 where it is not in it; all at once."""
    if not settings:
        return np.zeros(0, np.int64)
    radix = np.array([len(parameter.values) for parameter in space.kernel.parameters], np.int64)
    weights = np.concatenate([np.cumprod(radix[::-1])[::-1][1:], [1]]).astype(np.int64)
    places = np.empty((len(settings), len(radix)), np.int64)
    for column, parameter in enumerate(space.kernel.parameters):
        index: dict[Any, int] = {value: place for place, value in enumerate(parameter.values)}
        places[:, column] = [index.get(wish.get(parameter.name), -1) for wish in settings]
    codes, wanted = space.rows.astype(np.int64) @ weights, places @ weights
    at = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
    return np.where((codes[at] == wanted) & (places >= 0).all(axis=1), at, -1)



@dataclass(frozen=True, eq=False)
class Past:
    """What is known from elsewhere: times of configurations of another device or another problem."""

    spaces: tuple[SearchSpace, ...]  # which carry their problem and device
    seconds: NDArray[np.float64]  # by number in the union of the spaces; nan: not measured, inf: failed


def numbered(spaces: Sequence[SearchSpace], index: int) -> Configuration:
    """The configuration with that number in the union of the spaces, counted through in order."""
    for space in spaces:
        if index < len(space):
            return space[index]
        index -= len(space)
    raise IndexError(index)


def shuffled(spaces: Sequence[SearchSpace], seed: int) -> list[int]:
    """All numbers of the union in a seeded random order."""
    order: list[int] = np.random.default_rng(seed).permutation(sum(map(len, spaces))).tolist()
    return order
