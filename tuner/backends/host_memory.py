"""HostMemory: memory of this process for `GuardedBuffers`; each buffer lies between gaps without access."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .backend import LaunchError
from .reserved_memory import GAPS, LINE, ReservedMemory, margins

SPARE_BYTES = 1 << 28  # freed memory kept for the next executable, because its pages are mapped already
MOST_SPARE = 64  # pieces: each takes 32 GiB of addresses, of which x86-64 has 128 TiB


class HostMemory:
    """See `seqtune.tuner.backends.guarded_buffers.MemoryDriver`. Freed buffers are handed out again."""

    def __init__(self, alignment: int = LINE, spare_bytes: int = SPARE_BYTES, most_spare: int = MOST_SPARE,
                 gaps: Sequence[int] = GAPS) -> None:
        self._alignment, self._spare_bytes, self._most_spare, self._gaps = alignment, spare_bytes, most_spare, gaps
        self._spare: list[ReservedMemory] = []

    def margins(self, size: int, number: int) -> tuple[int, int]:
        """The bytes of canary before and behind a buffer."""
        return margins(size, number, self._alignment)

    def allocate(self, size: int) -> ReservedMemory:
        """Memory of `size` bytes: a spare piece where one fits, else a new one. Raises LaunchError."""
        fits = [index for index, memory in enumerate(self._spare) if size <= memory.capacity <= 2 * size]
        try:
            if not fits:
                return ReservedMemory(size, self._gaps)
            memory = self._spare.pop(min(fits, key=lambda index: self._spare[index].capacity))
            memory.resize(size)
        except MemoryError as error:
            raise LaunchError(f"out of memory: {error}") from None
        return memory

    def free(self, buffer: ReservedMemory) -> None:
        """Keep a buffer as a spare one, and give the oldest spare ones back to the system where they are too many."""
        self._spare.append(buffer)
        while len(self._spare) > self._most_spare or sum(
                memory.capacity for memory in self._spare) > self._spare_bytes:
            self._spare.pop(0)

    def write(self, buffer: ReservedMemory, offset: int, array: NDArray[Any]) -> None:
        """Copy a contiguous array into a buffer."""
        np.copyto(_elements(buffer, offset, array), array)

    def read(self, buffer: ReservedMemory, offset: int, array: NDArray[Any]) -> None:
        """Fill an array from a buffer."""
        np.copyto(array, _elements(buffer, offset, array))

    def fill(self, buffer: ReservedMemory, offset: int, byte: int, size: int) -> None:
        """Fill a part of a buffer with one byte."""
        buffer.bytes[offset:offset + size] = byte

    def copy(self, source: ReservedMemory, buffer: ReservedMemory, offset: int, size: int) -> None:
        """Copy the first bytes of another buffer into a part of a buffer."""
        buffer.bytes[offset:offset + size] = source.bytes[:size]

    def address(self, buffer: ReservedMemory, offset: int, size: int) -> int:
        """The address of a part of a buffer."""
        return buffer.address + offset

    def finish(self) -> None:
        """Return at once: nothing is enqueued."""

    def close(self) -> None:
        """Free the spare memory."""
        self._spare.clear()


def _elements(buffer: ReservedMemory, offset: int, array: NDArray[Any]) -> NDArray[Any]:
    """The elements of a buffer that an array of this shape and type corresponds to."""
    part: NDArray[Any] = buffer.bytes[offset:offset + array.nbytes].view(array.dtype).reshape(array.shape)
    return part
