"""ResolvedQuantities: the derived quantities of a kernel that a prefix of a sentence determines.

A derived quantity (a tile's accumulators, the share of a row that it wastes) is resolved by a prefix once every
parameter in its expression has a value. All rows with that prefix then have the same value, so the first row gives it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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


class ResolvedQuantities:
    """The numeric derived quantities in the vocabulary, for the rows of one space."""

    def __init__(self, space: SearchSpace, vocabulary: Vocabulary) -> None:
        index_of = {name: index for index, name in enumerate(vocabulary.derived)}
        any_known = any(name in index_of for name, _ in space.kernel.derived)
        values = space.columns() if any_known else {}
        resolving = {name: column for name, column in resolving_columns(space.kernel).items()
                     if name in index_of and values[name].dtype.kind in "biuf"}
        self._width = len(index_of)
        self._indices = np.array([index_of[name] for name in resolving], dtype=np.int64)
        self._columns = np.array(list(resolving.values()), dtype=np.int64)
        self._values = np.empty((len(space), len(resolving)), dtype=np.float16)  # short: training keeps many spaces
        for number, name in enumerate(resolving):
            size = np.nan_to_num(values[name].astype(np.float64), nan=0.0)
            self._values[:, number] = np.clip(np.log2(np.maximum(size, 2.0**MIN_LOG2)), MIN_LOG2, MAX_LOG2)

    def after(self, rows: NDArray[np.int64], column: int) -> Quantities:
        """The quantities resolved by prefixes, (row, derived).

        A prefix is given by a row that has it; it ends with the word in `column` (-1: the kernel's word).
        """
        quantities = np.full((len(rows), self._width), np.nan, dtype=np.float32)
        resolved = self._columns <= column
        quantities[:, self._indices[resolved]] = self._values[rows][:, resolved]
        return quantities
