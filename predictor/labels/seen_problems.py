"""Learned: what a model has learned from, kept in a byte or two each, so that it is not judged on it.

A Bloom filter over the hashes of labels' problems and of races: it forgets none, and takes at most one in fifty for
known that is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PROBES = 6
LARGEST = 64 << 20  # bytes


@dataclass(frozen=True, eq=False)
class Learned:
    """`bits` is a power of two of bytes, eight problems' answers in each."""

    bits: NDArray[np.uint8]

    @classmethod
    def of(cls, hashes: NDArray[np.uint64]) -> Learned:
        """Of distinct hashes (`Questions.hashes` of labels, `Races.hashes`)."""
        hashes = np.unique(hashes)
        size = 1 << max(6, int(len(hashes) - 1).bit_length())
        bits = np.zeros(size, np.uint8)
        places = _places(hashes, size).ravel()
        np.bitwise_or.at(bits, places >> 3, (1 << (places & 7)).astype(np.uint8))
        return cls(bits)

    def knows(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Whether each is among those learned from."""
        places = _places(hashes, len(self.bits))
        found = (self.bits[places >> 3] >> (places & 7).astype(np.uint8)) & 1
        return np.asarray(found.all(axis=1))


def _places(hashes: NDArray[np.uint64], size: int) -> NDArray[np.int64]:
    """(hash, PROBES) numbers of bits: two halves of a remixed hash, combined."""
    mixed = hashes * np.uint64(0x9E3779B97F4A7C15)
    first, second = mixed >> np.uint64(32), (mixed & np.uint64(0xFFFFFFFF)) | np.uint64(1)
    steps = np.arange(PROBES, dtype=np.uint64)
    return ((first[:, None] + steps * second[:, None]) % np.uint64(8 * size)).astype(np.int64)
