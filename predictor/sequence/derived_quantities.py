"""Settled: what each word decides about a kernel's derived quantities, as soon as it does.

A derived quantity (a tile's accumulators, the share of a row that it wastes) is settled by a prefix once every
parameter in its expression has a value. All rows that share the prefix then agree on it, so it is read at the first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.kernel import Kernel
from seqtune.kernels.space import SearchSpace

from .vocabulary import Vocabulary

LEAST, MOST = -14.0, 48.0  # log2 is cut here; what is not positive counts as the least

Quantities = NDArray[np.float32]  # (..., derived): log2 by place in Vocabulary.derived, NaN where not settled


def settling_columns(kernel: Kernel) -> dict[str, int]:
    """By derived quantity: the column whose word settles it; -1 where the kernel's word alone does."""
    columns = {parameter.name: column for column, parameter in enumerate(kernel.parameters)}
    for name, expression in kernel.derived:
        columns[name] = max((columns.get(seen, -1) for seen in expression.names), default=-1)
    return {name: columns[name] for name, _ in kernel.derived}


class Settled:
    """The numeric derived quantities of one space that the vocabulary knows, by row."""

    def __init__(self, space: SearchSpace, vocabulary: Vocabulary) -> None:
        place = {name: number for number, name in enumerate(vocabulary.derived)}
        known = any(name in place for name, _ in space.kernel.derived)
        found = space.columns() if known else {}
        settling = {name: column for name, column in settling_columns(space.kernel).items()
                    if name in place and found[name].dtype.kind in "biuf"}
        self._width = len(place)
        self._places = np.array([place[name] for name in settling], dtype=np.int64)
        self._columns = np.array(list(settling.values()), dtype=np.int64)
        self._values = np.empty((len(space), len(settling)), dtype=np.float16)  # short: thousands of spaces are kept
        for number, name in enumerate(settling):
            size = np.nan_to_num(found[name].astype(np.float64), nan=0.0)
            self._values[:, number] = np.clip(np.log2(np.maximum(size, 2.0**LEAST)), LEAST, MOST)

    def after(self, rows: NDArray[np.int64], column: int) -> Quantities:
        """Of the prefixes that begin in these rows and end with the word in `column` (-1: the kernel's)."""
        quantities = np.full((len(rows), self._width), np.nan, dtype=np.float32)
        known = self._columns <= column
        quantities[:, self._places[known]] = self._values[rows][:, known]
        return quantities
