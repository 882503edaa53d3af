"""ReservedMemory: bytes of this process between two gaps, which are address space without access.

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
