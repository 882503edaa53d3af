"""ResolvedByRow: the derived quantities of a kernel that a prefix of a sentence determines.

A derived quantity (a tile's accumulators, the share of a row that it wastes) is resolved by a prefix once every
parameter in its expression has a value. All rows with that prefix then have the same value, so the first row gives it.
One that divides by zero counts as 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.arithmetic import numbers_of
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.space import SearchSpace

from .vocabulary import Vocabulary

MIN_LOG2, MAX_LOG2 = -14.0, 48.0  # log2 is cut here; quantities that are not positive have the minimum

Quantities = NDArray[np.float32]  # (..., derived): log2 in the order of Vocabulary.derived, NaN where not resolved


def resolving_columns(kernel: Kernel) -> dict[str, int]:
    """The column whose word resolves each derived quantity, by name; -1 if the kernel's word is enough."""
    columns = {parameter.name: column for column, parameter in enumerate(kernel.parameters)}
    for name, expression in kernel.derived:
        columns[name] = max((columns.get(used, -1) for used in expression.names), default=-1)
    return {name: columns[name] for name, _ in kernel.derived}


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
        names, matrix = self._values(tuple(wanted), rows)
        return [wanted[name] for name in names], _rounded_log2(matrix).astype(np.float32).T

    def _values(self, wanted: tuple[str, ...], rows: NDArray[np.int64]
                ) -> tuple[Sequence[str], NDArray[np.float64]]:
        """The names of the numeric quantities and their values, (quantity, row)."""
        columns = {name: numbers for name, column in self._space.derived_columns(wanted, rows).items()
                   if (numbers := numbers_of(column)) is not None}
        return list(columns), np.array([*columns.values()], np.float64).reshape(len(columns), len(rows))


class _Resolving(NamedTuple):
    """The derived quantities of a kernel that a vocabulary has, with their indices in it."""

    by_column: Mapping[int, Mapping[str, int]]  # by the column whose word resolves them
    all: Mapping[str, int]


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
