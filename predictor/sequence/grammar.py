"""BatchGrammar: the words that may follow many prefixes of several tasks, and the quantities that these resolve.

A derived quantity (a tile's accumulators, the share of a row that it wastes) is resolved by a prefix once every
parameter in its expression has a value. All rows with that prefix then have the same value, so the first row gives it.
One that divides by zero counts as 0.
Shapes: P prefixes, R longer prefixes, D derived quantities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.arithmetic import numbers_of
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task

from .vocabulary import Vocabulary, Words

MIN_LOG2, MAX_LOG2 = -14.0, 48.0  # log2 is cut here; quantities that are not positive have the minimum

Quantities = NDArray[np.float32]  # (..., derived): log2 in the order of Vocabulary.derived, NaN where not resolved


class Prefixes(NamedTuple):
    """Beginnings of sentences of the same length, sorted by space. Rows [begin, end) of a space share a prefix."""

    space: Numbers  # (P,) among the spaces of all tasks
    begin: Numbers  # (P,)
    end: Numbers  # (P,)
    resolved: Quantities  # (P, D) the derived quantities that the prefix resolves

    def select(self, rows: Numbers) -> Prefixes:
        """The prefixes with these indices."""
        return Prefixes(self.space[rows], self.begin[rows], self.end[rows], self.resolved[rows])

    def joined(self, others: Prefixes) -> Prefixes:
        """These prefixes and then others; the result is not sorted."""
        return Prefixes(np.concatenate([self.space, others.space]), np.concatenate([self.begin, others.begin]),
                        np.concatenate([self.end, others.end]), np.concatenate([self.resolved, others.resolved]))


class Longer(NamedTuple):
    """Prefixes with one more word, sorted by the prefix that they continue."""

    after: Numbers  # (R,) index of the prefix before
    words: Words  # (R,)
    prefixes: Prefixes  # (R,)
    fresh: Numbers  # the derived quantities that the last words may resolve, ascending


class BatchGrammar:
    """The valid sentences of several tasks, of which none is empty.

    Raises CheckpointError for a kernel that the vocabulary lacks.
    """

    def __init__(self, vocabulary: Vocabulary, tasks: Sequence[Task]) -> None:
        self._width = len(vocabulary.derived)
        spaces = [space for task in tasks for space in task.spaces if len(space)]
        counts = np.array([sum(len(space) > 0 for space in task.spaces) for task in tasks], np.int64)
        self.task = np.repeat(np.arange(len(tasks)), counts)  # (space,)
        self.spaces = spaces
        self._lengths = np.array([len(space) for space in spaces], np.int64)
        before = np.cumsum(self._lengths) - self._lengths
        self.number = before - np.repeat(before[np.cumsum(counts) - counts], counts)  # (space,) its first number
        self._kernels = np.array([vocabulary.kernel(space.kernel.name) for space in spaces], np.int64)
        self._words = [vocabulary.value_words(space.kernel.name) for space in spaces]
        self._quantities = [ResolvedByRow(space, vocabulary) for space in spaces]

    def begin(self) -> Longer:
        """The prefixes of one word, a kernel's; they continue the empty prefix of each task."""
        count = len(self.spaces)
        prefixes = Prefixes(np.arange(count), np.zeros(count, np.int64), self._lengths,
                            np.full((count, self._width), np.nan, np.float32))
        for number, quantities in enumerate(self._quantities):
            quantities.resolve(np.zeros(1, np.int64), -1, prefixes.resolved[number:number + 1])
        return Longer(self.task, self._kernels, prefixes, self._fresh(range(count), -1))

    def follow(self, prefixes: Prefixes, column: int) -> Longer:
        """The longer prefixes that the values of the parameters in `column` make; a complete prefix has one."""
        starts = _starts(prefixes.space)
        parts = []
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(prefixes.space)], strict=True):
            number = int(prefixes.space[start])
            parents, values, begins, ends = self.spaces[number].next_ranges(
                prefixes.begin[start:stop], prefixes.end[start:stop], column)
            after = parents + start
            resolved = prefixes.resolved[after]
            self._quantities[number].resolve(begins, column, resolved)
            parts.append((after, self._words[number][column][values], np.full(len(after), number), begins, ends,
                          resolved))
        after, words, space, begins, ends, resolved = parts[0] if len(parts) == 1 else map(
            np.concatenate, zip(*parts, strict=True))
        numbers = prefixes.space[starts].tolist()
        return Longer(after, words, Prefixes(space, begins, ends, resolved), self._fresh(numbers, column))

    def _fresh(self, spaces: Iterable[int], column: int) -> Numbers:
        """The quantities that the words in a column (-1: the kernel's) may resolve in any of these spaces."""
        return np.array(sorted(set().union(*(self._quantities[number].by_column.get(column, {}).values()
                                             for number in spaces))), np.int64)


_FIRST = np.zeros(1, np.int64)
_FIRST.setflags(write=False)


def first_of_each(order: NDArray[np.int64], group: Numbers, width: int) -> NDArray[np.int64]:
    """The first `width` indices of each group in an order that is sorted by group."""
    groups = group[order]
    starts = _starts(groups)
    if len(starts) == 1:
        return order[:width]
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return order[rank < width]


def _starts(groups: Numbers) -> Numbers:
    """The indices at which a new group begins in an array that is not empty."""
    changed = (groups[1:] != groups[:-1]).nonzero()[0]
    changed += 1
    return np.concatenate((_FIRST, changed)) if len(changed) else _FIRST


class ResolvedByRow:
    """The vocabulary's numeric quantities of a space, computed for the rows that are asked for, such as a beam's."""

    def __init__(self, space: SearchSpace, vocabulary: Vocabulary) -> None:
        self._space = space
        self._resolving = _resolving(space.kernel, vocabulary.derived)
        self.by_column = self._resolving.by_column

    def resolve(self, rows: NDArray[np.int64], column: int, quantities: Quantities) -> None:
        """Write what the word in `column` (-1: the kernel's word) resolves into `quantities` (row, derived).

        Each prefix that ends with that word is given by a row that has it.
        """
        wanted = self.by_column.get(column)
        if wanted is not None:
            indices, values = self._computed(wanted, rows)
            quantities[:, indices] = values

    def complete(self, rows: NDArray[np.int64]) -> tuple[list[int], Quantities]:
        """All quantities of whole configurations, (row, quantity), and the index of each among the vocabulary's."""
        return self._computed(self._resolving.all, rows)

    def _computed(self, wanted: Mapping[str, int], rows: NDArray[np.int64]) -> tuple[list[int], Quantities]:
        """The index and the values of each numeric quantity; words have no logarithm."""
        columns = {name: numbers for name, column in self._space.derived_columns(tuple(wanted), rows).items()
                   if (numbers := numbers_of(column)) is not None}
        matrix = np.array([*columns.values()], np.float64).reshape(len(columns), len(rows))
        return [wanted[name] for name in columns], _rounded_log2(matrix).astype(np.float32).T


class _Resolving(NamedTuple):
    """The derived quantities of a kernel that a vocabulary has, with their indices in it."""

    by_column: Mapping[int, Mapping[str, int]]  # by the column whose word resolves them
    all: Mapping[str, int]


def resolving_columns(kernel: Kernel) -> dict[str, int]:
    """The column whose word resolves each derived quantity, by name; -1 if the kernel's word is enough."""
    columns = {parameter.name: column for column, parameter in enumerate(kernel.parameters)}
    for name, expression in kernel.derived:
        columns[name] = max((columns.get(used, -1) for used in expression.names), default=-1)
    return {name: columns[name] for name, _ in kernel.derived}


@lru_cache(maxsize=512)
def _resolving(kernel: Kernel, derived: tuple[str, ...]) -> _Resolving:
    """The quantities of a kernel among the derived quantities of a vocabulary."""
    index_of = {name: index for index, name in enumerate(derived)}
    columns: dict[int, dict[str, int]] = {}
    for name, column in resolving_columns(kernel).items():
        if name in index_of:
            columns.setdefault(column, {})[name] = index_of[name]
    return _Resolving(columns, {name: index for wanted in columns.values() for name, index in wanted.items()})


def _rounded_log2(sizes: NDArray[np.float64]) -> NDArray[np.float16]:
    """The limited log2 of quantities in 16 bits, as training keeps it for many spaces."""
    positive = np.fmax(sizes, 2.0**MIN_LOG2)  # of NaN and a number, fmax gives the number
    np.log2(positive, out=positive)
    return np.asarray(np.minimum(positive, MAX_LOG2, out=positive), np.float16)
