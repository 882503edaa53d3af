"""Memory that the programs of one device share: scratch memory, used in turn, and equal constants, kept once.

A model with many input shapes has a program for each. Its weights are the same in all of them, and one program runs at
a time, so further programs need hardly any memory.
"""

from __future__ import annotations

import threading
import zlib
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.launches.implementation import Array
from seqtune.kernels.llvm.aligned import aligned, is_aligned

SAMPLED = 1024  # elements that choose the array to compare with


class Scratch:
    """Uninitialised memory that one program uses at a time.

    It at least doubles when it grows: all arrays ever returned together take less than four times the largest.
    """

    def __init__(self) -> None:
        self._array = aligned((0,))

    def take(self, floats: int) -> Array:
        """An array of at least `floats` floats; later calls return the same memory."""
        if floats > self._array.size:
            self._array = aligned((max(floats, 2 * self._array.size),))
        return self._array


class SharedConstants:
    """Constants that begin at a cache line; equal ones are one array, which lives as long as somebody holds it.

    Several threads may keep arrays.
    """

    def __init__(self) -> None:
        self._arrays: WeakValueDictionary[Any, NDArray[Any]] = WeakValueDictionary()
        self._lock = threading.Lock()

    def keep(self, array: NDArray[Any], given: bool = False) -> NDArray[Any]:
        """An array with the same bytes, which must not be written.

        With `given`, the caller will not write the array; it is kept without a copy if it begins at a cache line.
        """
        bits = np.ascontiguousarray(array).reshape(-1).view(f"u{array.itemsize}")  # 0 and -0 differ, NaN equals itself
        sample = np.ascontiguousarray(bits[::-(-bits.size // SAMPLED) or 1])
        key = array.shape, array.dtype, zlib.crc32(sample.tobytes())
        with self._lock:
            known = self._arrays.get(key)
            if known is not None and (known is array or np.array_equal(known.reshape(-1).view(bits.dtype), bits)):
                return known
            if given and is_aligned(array):
                kept = array
            else:
                kept = aligned(array.shape, array.dtype)
                np.copyto(kept, array)
            self._arrays[key] = kept
            return kept
