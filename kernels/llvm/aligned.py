"""Aligned arrays: they begin at a cache line, as packed weights do.

The first access to new memory costs a process far more than a copy, so weights are packed into their final memory.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

LINE_BYTES = 64
_FIRST_BYTE = ctypes.c_char.from_buffer


def aligned(shape: tuple[int, ...], dtype: Any = np.float32) -> NDArray[Any]:
    """An uninitialised array of this shape that begins at a cache line."""
    raw = np.empty(np.dtype(dtype).itemsize * math.prod(shape) + LINE_BYTES, np.uint8)
    return np.ndarray(shape, dtype, raw, -address_of(raw) % LINE_BYTES)


def address_of(array: NDArray[Any]) -> int:
    """The address of a writable, contiguous array that is not empty, in a fifth of the time of `array.ctypes.data`."""
    return ctypes.addressof(_FIRST_BYTE(array.data))


def is_aligned(array: NDArray[Any]) -> bool:
    """Whether an array is contiguous and begins at a cache line."""
    return array.flags.c_contiguous and array.ctypes.data % LINE_BYTES == 0
