"""StoredOperands: operands as kernels read them, packed and in their element type, kept for the next configurations.

Packing and rounding a large matrix on the host takes a hundred times as long as a launch that reads it, and most
configurations of a problem read the same.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.element_types import element_type, encode
from seqtune.kernels.launches.call import BufferArgument

Stored = NDArray[Any]
MOST_BYTES = 2 << 30  # of the host's memory, for the arrays and their stored forms together


def stored(array: NDArray[Any], argument: BufferArgument) -> Stored:
    """The array as a kernel reads it: packed, contiguous and in its element type."""
    packed = array if argument.packing is None else argument.packing.pack(array)
    if packed.dtype == element_type(argument.dtype).stored:
        return np.ascontiguousarray(packed)
    return encode(packed, argument.dtype)


class StoredOperands:
    """The stored forms of read-only arrays. Beyond `most_bytes`, the least recently used ones are dropped."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[tuple[int, Hashable], tuple[NDArray[Any], Stored]] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}

    def get(self, array: NDArray[Any], argument: BufferArgument) -> Stored:
        """The array as the kernel reads it.

        The stored form of a writeable array is not kept, because its numbers may change. An array that a kernel reads
        unchanged is returned itself.
        """
        if array.flags.writeable:
            return stored(array, argument)
        key = id(array), _form(argument)  # the array is kept too, so no other array gets its id
        if key not in self._kept:
            form = stored(array, argument)
            if form is array:
                return form
            self._kept[key] = array, form
            self._bytes += array.nbytes + form.nbytes
            while self._bytes > self._most_bytes and len(self._kept) > 1:
                self._bytes -= sum(both.nbytes for both in self._kept.popitem(last=False)[1])
        self._kept.move_to_end(key)
        return self._kept[key][1]

    def size(self, shape: tuple[int, ...], argument: BufferArgument) -> int:
        """The bytes of an operand of this shape as the kernel reads it."""
        if argument.packing is None:
            return math.prod(shape) * element_type(argument.dtype).size
        key = shape, _form(argument)
        if key not in self._sizes:
            zeros = np.broadcast_to(np.float32(0), shape)  # takes no memory
            self._sizes[key] = stored(zeros, argument).nbytes
        return self._sizes[key]

    def clear(self) -> None:
        """Drop all stored forms."""
        self._kept.clear()
        self._bytes = 0


def _form(argument: BufferArgument) -> Hashable:
    """The part of a key that says how the array is stored."""
    return argument.dtype, argument.packing
