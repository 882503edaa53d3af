"""ReservedMemory: bytes of this process between two gaps, which are address space without access.

A read or write in a gap ends the process (SIGSEGV), which a measuring worker's parent records as a crash. Gaps cost no
memory, only addresses: with the 47 bits of x86-64 there is room for 4096 such pieces. Access begins and ends at borders
of pages alone; `margins` says where in a piece a buffer lies, so that its end is near such a border.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import warnings
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import SeqtuneWarning

PAGE = mmap.PAGESIZE
LINE = 64  # bytes of a cache line, at which buffers begin
LEAST_MARGIN = 64  # bytes on each side of a buffer: a vector, so that an error by one element hits canaries, by name
STAGGERED = 8  # buffers with different margins: more than a kernel has
# Bytes of a gap: as far as a signed 32-bit index of elements of 8 bytes reaches; that of floats reaches 8 GiB. The
# smaller ones are for systems that refuse: 39 bits of addresses on some ARM kernels, a limit of them (ulimit -v).
GAPS = (1 << 34, 1 << 32, 1 << 30, 1 << 20)
HUGE_PAGE = 2 << 20
HUGE_FROM = 4 << 20  # bytes from which NumPy asks for huge pages, so that buffers have them where other arrays do
_NO_ACCESS = 0


def margins(size: int, number: int, alignment: int = LINE) -> tuple[int, int]:
    """The bytes to keep before and behind a buffer, so that it is aligned and its margins end at borders of pages.

    Few bytes lie behind, since most stray accesses pass the end; one line more for each `number` among the buffers of
    an executable. A load waits for an earlier store to the same address modulo 4096: with input and output at one place
    in their pages, depthwise convolutions were 2 to 10 % slower on a Zen 5.
    """
    behind = LEAST_MARGIN + number % STAGGERED * alignment
    behind += -(size + behind) % alignment
    whole = -(-(LEAST_MARGIN + size + behind) // PAGE) * PAGE
    return whole - size - behind, behind


class ReservedMemory:
    """Accessible `bytes` that end where a page ends. Dropping it and all arrays of it frees it. Raises MemoryError."""

    def __init__(self, capacity: int) -> None:
        self.capacity = -(-max(capacity, 1) // PAGE) * PAGE
        slack = HUGE_PAGE if self.capacity >= HUGE_FROM else 0
        self._mapping, gap = _reserve(self.capacity + slack)
        base = int(np.frombuffer(self._mapping, np.uint8).ctypes.data) + gap
        if slack:
            base += -base % HUGE_PAGE
        self._end = base + self.capacity
        self._begin = self._end  # of the accessible pages
        self.resize(capacity)
        if slack and hasattr(mmap, "MADV_HUGEPAGE"):
            _call("madvise", base, self.capacity, mmap.MADV_HUGEPAGE)  # an error does not count: it is advice

    def resize(self, size: int) -> None:
        """Make the last `size` bytes of the capacity accessible, and no page before those; contents stay."""
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


def _reserve(size: int) -> tuple[mmap.mmap, int]:
    """Map address space for so many bytes between two gaps. Returns it and the bytes of a gap."""
    if sys.platform == "win32":
        _warn()
        return mmap.mmap(-1, size), 0
    error: Exception | None = None
    for gap in GAPS:
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
    raise MemoryError(f"the system refuses {size} bytes of address space: {error}")


@lru_cache(maxsize=1)  # once in a process
def _warn() -> None:
    warnings.warn(f"the system refuses {GAPS[0] >> 30} GiB of addresses without memory on both sides of each buffer "
                  "(ulimit -v?): kernels that read or write far outside a buffer may count as correct", SeqtuneWarning,
                  stacklevel=2)


@lru_cache(maxsize=1)
def _library() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _call(name: str, address: int, size: int, argument: int) -> int:
    """Call a function of the C library on pages. Returns 0, or the number of the error."""
    failed = getattr(_library(), name)(ctypes.c_void_p(address), ctypes.c_size_t(size), ctypes.c_int(argument))
    return ctypes.get_errno() if failed else 0


def _protect(address: int, size: int, access: int) -> None:
    if error := _call("mprotect", address, size, access):
        raise MemoryError(f"mprotect: {os.strerror(error)}")
