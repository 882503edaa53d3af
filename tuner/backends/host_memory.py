"""HostMemory: memory of this process for `GuardedBuffers`; each buffer lies between gaps without access.

A read or write in a gap ends the process (SIGSEGV), which a measuring worker's parent records as a crash. Gaps cost no
memory, only addresses: the 47 bits of x86-64 suffice for 4096 such pieces. A gap begins and ends at the border of a
page. A buffer has any size, so `margins` says how many bytes lie between it and the gaps.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import warnings
from collections.abc import Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import SeqtuneWarning

from .backend import LaunchError

PAGE = mmap.PAGESIZE
LINE = 64  # bytes of a cache line, at which buffers begin
LEAST_MARGIN = 64  # bytes of canaries on each side of a buffer: a vector, so that an error by one element changes a
#                    canary, and the message names the buffer; a crash names none
STAGGERED = 8  # number of buffers with different margins; further ones repeat them
# Bytes of a gap. The first is as far as a signed 32-bit index of 8-byte elements reaches (one of floats: 8 GiB). The
# others are for systems that refuse it: some ARM kernels have 39 bits of addresses, and `ulimit -v` limits them.
GAPS = (1 << 34, 1 << 32, 1 << 30, 1 << 20)
HUGE_PAGE = 2 << 20
HUGE_FROM = 4 << 20  # bytes from which NumPy asks for huge pages, so that buffers have them where other arrays do
_NO_ACCESS = 0


def margins(size: int, number: int, alignment: int = LINE) -> tuple[int, int]:
    """The bytes of margin before and behind a buffer of `size` bytes, which is aligned between them.

    Both margins and the buffer together fill whole pages. Few bytes lie behind the buffer, since most stray accesses
    pass its end: LEAST_MARGIN, and `alignment` more for each step of `number`, the index of the buffer in its
    executable. A load waits for an earlier store to the same address modulo 4096: with input and output at one place
    in their pages, depthwise convolutions were 2 to 10 % slower on a Zen 5.
    """
    behind = LEAST_MARGIN + number % STAGGERED * alignment
    behind += -(size + behind) % alignment
    whole = -(-(LEAST_MARGIN + size + behind) // PAGE) * PAGE
    return whole - size - behind, behind


class ReservedMemory:
    """Accessible `bytes` that end where a page ends. They are freed with the object and all arrays of them."""

    def __init__(self, capacity: int, gaps: Sequence[int] = GAPS) -> None:
        """Reserve addresses for at least `capacity` bytes, and make that many accessible. Raises MemoryError.

        `gaps` are the bytes of a gap; the first that the system grants count.
        """
        self.capacity = -(-max(capacity, 1) // PAGE) * PAGE
        slack = HUGE_PAGE if self.capacity >= HUGE_FROM else 0
        self._mapping, gap = _reserve(self.capacity + slack, gaps)
        base = int(np.frombuffer(self._mapping, np.uint8).ctypes.data) + gap
        if slack:
            base += -base % HUGE_PAGE
        self._end = base + self.capacity
        self._begin = self._end  # of the accessible pages
        self.resize(capacity)
        if slack and hasattr(mmap, "MADV_HUGEPAGE"):
            _call("madvise", base, self.capacity, mmap.MADV_HUGEPAGE)  # an error does not count: it is advice

    def resize(self, size: int) -> None:
        """Make the last `size` bytes of the capacity accessible, and no page before them; contents stay.

        Raises MemoryError if the system refuses it. `size` may not exceed the capacity.
        """
        begin = self._end - -(-max(size, 1) // PAGE) * PAGE
        if sys.platform != "win32":
            if begin < self._begin:
                _protect(begin, self._begin - begin, mmap.PROT_READ | mmap.PROT_WRITE)
            elif begin > self._begin:
                _protect(self._begin, begin - self._begin, _NO_ACCESS)
        self._begin = begin
        self.address = self._end - size  # of the first byte
        self.bytes: NDArray[np.uint8] = np.asarray(SimpleNamespace(
            owner=self._mapping,
            __array_interface__={"data": (self.address, False), "shape": (size,), "typestr": "|u1", "version": 3}))


def _reserve(size: int, gaps: Sequence[int]) -> tuple[mmap.mmap, int]:
    """Map address space for `size` bytes between two gaps; return the mapping and the bytes of a gap."""
    if sys.platform == "win32":
        _warn()
        return mmap.mmap(-1, size), 0
    error: Exception | None = None
    for gap in gaps:
        try:
            mapping = mmap.mmap(-1, size + 2 * gap, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, _NO_ACCESS)
        except (OSError, OverflowError, ValueError) as refusal:
            error = error or refusal
            continue
        if hasattr(mmap, "MADV_DONTDUMP"):
            mapping.madvise(mmap.MADV_DONTDUMP)  # a crash leaves no file of many GiB
        if error is not None:
            _warn()
        return mapping, gap
    raise MemoryError(f"the system refuses {size} bytes of addresses: {error}")


@lru_cache(maxsize=1)  # once in a process
def _warn() -> None:
    warnings.warn(f"the system refuses {GAPS[0] >> 30} GiB of addresses without memory on both sides of each buffer "
                  "(ulimit -v?): kernels that read or write far outside a buffer may count as correct", SeqtuneWarning,
                  stacklevel=2)


@lru_cache(maxsize=1)
def _library() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _call(name: str, address: int, size: int, argument: int) -> int:
    """Call a function of the C library on pages; return 0, or the number of the error."""
    failed = getattr(_library(), name)(ctypes.c_void_p(address), ctypes.c_size_t(size), ctypes.c_int(argument))
    return ctypes.get_errno() if failed else 0


def _protect(address: int, size: int, access: int) -> None:
    if error := _call("mprotect", address, size, access):
        raise MemoryError(f"mprotect: {os.strerror(error)}")


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
