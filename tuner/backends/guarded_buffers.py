"""GuardedBuffers: an executable's buffers on a device, with canaries around each of them and poison in the outputs.

A kernel that writes beside a buffer changes a canary. A kernel that does not write all of its output leaves poison,
which is NaN in a buffer of floating-point numbers. The canaries beside an input are NaN, too, so a kernel that reads
them computes NaN. On a CPU, accesses that pass the canaries end the process (see `ReservedMemory`); on a GPU they may
go unnoticed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.element_types import ElementType, element_type

MARGIN = 4096  # bytes of canary on each side of a GPU's buffer; a multiple of any device's alignment


class MemoryDriver(Protocol):
    """Memory of a device. Offsets and sizes are bytes; buffers are the driver's own objects.

    A failed call raises LaunchError, or DeviceLost where the process can no longer use the device.
    """

    def margins(self, size: int, number: int) -> tuple[int, int]:
        """The bytes of canary before and behind the `size` bytes that a kernel gets of a buffer.

        `number` is the index of the buffer in its executable. Margins are multiples of any type's size.
        """
        ...

    def allocate(self, size: int) -> Any:
        """Allocate a buffer that begins at a multiple of any type's size."""
        ...

    def free(self, buffer: Any) -> None:
        """Free a buffer."""
        ...

    def write(self, buffer: Any, offset: int, array: NDArray[Any]) -> None:
        """Copy a contiguous array into a buffer."""
        ...

    def read(self, buffer: Any, offset: int, array: NDArray[Any]) -> None:
        """Fill an array from a buffer when all earlier work is done."""
        ...

    def fill(self, buffer: Any, offset: int, byte: int, size: int) -> None:
        """Fill a part of a buffer with one byte."""
        ...

    def copy(self, source: Any, buffer: Any, offset: int, size: int) -> None:
        """Copy the first `size` bytes of another buffer into a part of a buffer, on the device."""
        ...

    def address(self, buffer: Any, offset: int, size: int) -> Any:
        """The part of a buffer that an argument points to."""
        ...

    def finish(self) -> None:
        """Wait for all enqueued work."""
        ...


@dataclass(frozen=True, slots=True)
class _Buffer:
    """A driver's buffer: `before` bytes of canaries, `size` bytes for the kernel, `behind` bytes of canaries."""

    memory: Any
    before: int
    size: int
    behind: int
    poisoned: bool
    element: ElementType

    def margins(self) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """The first byte of each margin, and its canaries."""
        pattern = self.element.canary if self.poisoned else bytes([self.element.poison])
        for begin, size in ((0, self.before), (self.before + self.size, self.behind)):
            if size:
                yield begin, _canaries(pattern, size)


@lru_cache(maxsize=256)  # a few sizes of margins on a GPU, about a hundred on a CPU
def _canaries(pattern: bytes, size: int) -> NDArray[np.uint8]:
    canaries = np.resize(np.frombuffer(pattern, np.uint8), size)
    canaries.setflags(write=False)
    return canaries


class GuardedBuffers:
    """Buffers by name, of `sizes` bytes each."""

    def __init__(self, driver: MemoryDriver, sizes: Mapping[str, int], poisoned: Collection[str], *,
                 types: Mapping[str, str] | None = None, guarded: bool = True, cleared: bool = True) -> None:
        """Allocate the buffers. Raises LaunchError, and keeps none then.

        Kernels write the buffers in `poisoned`, which `poison` fills. `types` are the names of element types, on which
        canaries and poison depend; a buffer without one holds fp32. Without `guarded` there are no canaries, for
        devices that check the bounds themselves. `cleared` buffers hold zeros at first, so that a launch before
        `poison` and `write` reads no NaN.
        """
        self._driver, self._types, self._guarded, self._cleared = driver, types or {}, guarded, cleared
        self._buffers: dict[str, _Buffer] = {}
        self._kept: dict[str, Any] = {}  # name -> memory of the device with the contents that `restore` copies
        self.addresses: dict[str, Any] = {}  # name -> the part between the margins, as an argument of a kernel
        try:
            for name, size in sizes.items():
                self.add(name, size, name in poisoned)
        except BaseException:
            self.close()
            raise

    def add(self, name: str, size: int, poisoned: bool = False) -> None:
        """Allocate one more buffer. Raises LaunchError."""
        before, behind = self._driver.margins(size, len(self._buffers)) if self._guarded else (0, 0)
        whole = before + size + behind
        memory = self._driver.allocate(max(1, whole))
        element = element_type(self._types.get(name, "fp32"))
        self._buffers[name] = _Buffer(memory, before, size, behind, poisoned, element)
        if self._cleared:
            self._driver.fill(memory, 0, 0, whole)
        self.addresses[name] = self._driver.address(memory, before, size)

    def __contains__(self, name: str) -> bool:
        return name in self._buffers

    def write(self, name: str, array: NDArray[Any]) -> None:
        """Copy a contiguous array into a buffer."""
        self._driver.write(self._buffers[name].memory, self._buffers[name].before, array)

    def read(self, name: str, array: NDArray[Any]) -> None:
        """Fill an array from a buffer."""
        self._driver.read(self._buffers[name].memory, self._buffers[name].before, array)

    def keep(self, name: str, array: NDArray[Any]) -> None:
        """Keep a contiguous array on the device, for `restore`. Raises LaunchError."""
        self._kept[name] = self._driver.allocate(max(1, array.nbytes))
        self._driver.write(self._kept[name], 0, array)

    def restore(self, name: str) -> None:
        """Enqueue a copy of the contents that `keep` got."""
        buffer = self._buffers[name]
        self._driver.copy(self._kept[name], buffer.memory, buffer.before, buffer.size)

    def forget(self) -> None:
        """Free what `keep` got."""
        for memory in self._kept.values():
            self._driver.free(memory)
        self._kept = {}

    def clear(self, name: str) -> None:
        """Enqueue a fill of a buffer with zeros."""
        buffer = self._buffers[name]
        self._driver.fill(buffer.memory, buffer.before, 0, buffer.size)

    def poison(self) -> None:
        """Fill the poisoned buffers, and reset the canaries around every buffer."""
        for buffer in self._buffers.values():
            for begin, canaries in buffer.margins():
                self._driver.write(buffer.memory, begin, canaries)
            if buffer.poisoned:
                self._driver.fill(buffer.memory, buffer.before, buffer.element.poison, buffer.size)
        self._driver.finish()

    def overrun(self) -> str | None:
        """The name of a buffer that was written outside its bounds since `poison`, or None."""
        for name, buffer in self._buffers.items():
            for begin, canaries in buffer.margins():
                margin = np.empty_like(canaries)
                self._driver.read(buffer.memory, begin, margin)
                if (margin != canaries).any():
                    return name
        return None

    def close(self) -> None:
        """Free the buffers."""
        self.addresses = {}
        self.forget()
        for buffer in self._buffers.values():
            self._driver.free(buffer.memory)
        self._buffers = {}
