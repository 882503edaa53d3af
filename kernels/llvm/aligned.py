"""Aligned arrays: they begin at a cache line, as packed weights do.

The first access to new memory costs a process far more than a copy, so weights are packed into their final memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LINE_BYTES = 64


def aligned(shape: tuple[int, ...], dtype: Any = np.float32) -> NDArray[Any]:
    """An uninitialised array of this shape that begins at a cache line."""
    size = np.dtype(dtype).itemsize * int(np.prod(shape))
    raw = np.empty(size + LINE_BYTES, np.uint8)
    begin = -raw.ctypes.data % LINE_BYTES
    array: NDArray[Any] = raw[begin:begin + size].view(dtype).reshape(shape)
    return array


def is_aligned(array: NDArray[Any]) -> bool:
    """Whether an array is contiguous and begins at a cache line."""
    return array.flags.c_contiguous and array.ctypes.data % LINE_BYTES == 0
