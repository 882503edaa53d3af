"""RowIndex: finds the rows of configurations in a table by hashing. PrefixBorders: the rows at which prefixes begin."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int16]  # (configuration, parameter): indices into Parameter.values
Numbers = NDArray[np.int64]


class RowIndex:
    """Finds rows in a table of value indices. The hashes of the table are sorted once."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        weights = np.random.default_rng(0).integers(1, 2**63, rows.shape[1], dtype=np.uint64)
        self._weights: NDArray[np.uint64] = np.bitwise_or(weights, np.uint64(1))
        hashes = self._hash(rows)
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    def _hash(self, rows: NDArray[Any]) -> NDArray[np.uint64]:
        hashes = np.zeros(len(rows), np.uint64)
        for column in range(rows.shape[1]):
            hashes += rows[:, column].astype(np.uint64) * self._weights[column]  # wraps around
        return hashes

    def find(self, wanted: NDArray[Any]) -> Numbers:
        """The row number of each wanted row; -1 if the table does not contain it. `wanted` is (rows, parameters)."""
        if not len(self._rows):
            return np.full(len(wanted), -1, np.int64)
        nearest = np.minimum(np.searchsorted(self._hashes, self._hash(wanted)), len(self._rows) - 1)
        numbers = self._order[nearest].astype(np.int64)
        numbers[(self._rows[numbers] != wanted).any(axis=1)] = -1
        return numbers


class PrefixBorders:
    """The rows of a sorted table at which a new prefix of each length begins; computed on first use."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._borders: list[Numbers] = []
        self._changed = np.zeros(max(len(rows) - 1, 0), np.bool_)  # (row - 1,) whether a column so far differs from it

    def of(self, column: int) -> Numbers:
        """The first rows of the prefixes that end with a column, in order, and then the number of rows."""
        while len(self._borders) <= column:
            values = self._rows[:, len(self._borders)]
            self._changed |= values[1:] != values[:-1]
            first = np.zeros(min(1, len(self._rows)), np.int64)
            self._borders.append(np.concatenate([first, np.flatnonzero(self._changed) + 1, [len(self._rows)]]))
        return self._borders[column]
