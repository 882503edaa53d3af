"""Memory that the programs of one device share: scratch memory, used in turn, and equal constants, kept once.

A model with many input shapes has a program for each. Its weights are the same in all of them, and one program runs at
a time, so further programs need hardly any memory.
"""

from __future__ import annotations

import zlib
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.implementation import Array

SAMPLED = 1024  # elements that choose the array to compare with


class Scratch:
    """Uninitialised memory that one program uses at a time.

    It grows at least to twice its size: all arrays that were ever handed out take less than four times the largest.
    """

    def __init__(self) -> None:
        self._array = aligned((0,))

    def take(self, floats: int) -> Array:
        """An array of at least so many floats, which later calls hand out again."""
        if floats > self._array.size:
            self._array = aligned((max(floats, 2 * self._array.size),))
        return self._array


class SharedConstants:
    """Constants that begin at a cache line; equal ones are one array, which lives as long as somebody holds it."""

    def __init__(self) -> None:
        self._arrays: WeakValueDictionary[Any, NDArray[Any]] = WeakValueDictionary()

    def keep(self, array: NDArray[Any]) -> NDArray[Any]:
        """An array with the same bytes, which must not be written."""
        bits = np.ascontiguousarray(array).reshape(-1).view(f"u{array.itemsize}")  # 0 and -0 differ, NaN equals itself
        sample = np.ascontiguousarray(bits[::-(-bits.size // SAMPLED) or 1])
        key = array.shape, array.dtype, zlib.crc32(sample.tobytes())
        known = self._arrays.get(key)
        if known is not None and np.array_equal(known.reshape(-1).view(bits.dtype), bits):
            return known
        copy = aligned(array.shape, array.dtype)
        np.copyto(copy, array)
        self._arrays[key] = copy
        return copy


def aligned(shape: tuple[int, ...], dtype: Any = np.float32) -> NDArray[Any]:
    """An uninitialised array of this shape that begins at a cache line."""
    size = np.dtype(dtype).itemsize * int(np.prod(shape))
    raw = np.empty(size + 64, np.uint8)
    begin = -raw.ctypes.data % 64
    array: NDArray[Any] = raw[begin:begin + size].view(dtype).reshape(shape)
    return array
