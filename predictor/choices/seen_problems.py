"""SeenProblems: the problems that a model has learned from, in one or two bytes each, so that no evaluation uses them.

It is a Bloom filter over the hashes of labels' problems and of solver timings: it recognises all of them, and wrongly
recognises at most one other hash in fifty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PROBES = 6  # bits per hash
LARGEST = 64 << 20  # bytes


@dataclass(frozen=True, eq=False)
class SeenProblems:
    """A set of hashes. `bits` are the bytes of the Bloom filter; their number is a power of two."""

    bits: NDArray[np.uint8]

    @classmethod
    def of(cls, hashes: NDArray[np.uint64]) -> SeenProblems:
        """Make the set of some hashes (`Queries.hashes` of labels, `SolverTimings.hashes`)."""
        hashes = np.unique(hashes)
        size = 1 << max(6, int(len(hashes) - 1).bit_length())
        bits = np.zeros(size, np.uint8)
        positions = _bit_positions(hashes, size).ravel()
        np.bitwise_or.at(bits, positions >> 3, (1 << (positions & 7)).astype(np.uint8))
        return cls(bits)

    def contains(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Whether each hash is in the set, (hash,); a few others seem to be."""
        positions = _bit_positions(hashes, len(self.bits))
        present = (self.bits[positions >> 3] >> (positions & 7).astype(np.uint8)) & 1
        return np.asarray(present.all(axis=1))


def _bit_positions(hashes: NDArray[np.uint64], size: int) -> NDArray[np.int64]:
    """The positions of a hash's bits, (hash, PROBES), computed from the two halves of the remixed hash."""
    mixed = hashes * np.uint64(0x9E3779B97F4A7C15)
    first, second = mixed >> np.uint64(32), (mixed & np.uint64(0xFFFFFFFF)) | np.uint64(1)
    steps = np.arange(PROBES, dtype=np.uint64)
    return ((first[:, None] + steps * second[:, None]) % np.uint64(8 * size)).astype(np.int64)
