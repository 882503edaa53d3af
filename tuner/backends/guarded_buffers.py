"""GuardedBuffers: an executable's buffers on a device, with canaries around each of them and poison in the outputs.

A kernel that writes beside a buffer changes a canary; one that does not write all of its output leaves poison, which is
NaN in a buffer of floating-point numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.element_types import NAN_BYTE

MARGIN = 4096  # bytes of canary on each side of every buffer; a multiple of any device's alignment


class MemoryDriver(Protocol):
    """Memory of a device. Offsets and sizes are bytes; buffers are the driver's own objects.

    A failed call raises LaunchError, or DeviceLost where the process can no longer use the device.
    """

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

    def address(self, buffer: Any, offset: int, size: int) -> Any:
        """The part of a buffer that an argument points to."""
        ...

    def finish(self) -> None:
        """Wait for all enqueued work."""
        ...


class GuardedBuffers:
    """Buffers by name, of `sizes` bytes each. They hold zeros at first, so that the first launch reads no NaN."""

    def __init__(self, driver: MemoryDriver, sizes: Mapping[str, int], poisoned: Collection[str], *,
                 bytes_of: Mapping[str, int] | None = None, margin: int = MARGIN) -> None:
        """Allocate the buffers. Raises LaunchError, and keeps none then.

        The buffers in `poisoned` are filled by `poison`. `bytes_of` gives the byte of canaries and poison where it is
        not that of a NaN. A `margin` of 0 is for devices that check the bounds themselves.
        """
        self._driver, self._sizes, self._poisoned, self._margin = driver, dict(sizes), frozenset(poisoned), margin
        self._bytes = {name: (bytes_of or {}).get(name, NAN_BYTE) for name in sizes}
        self._whole: dict[str, Any] = {}  # name -> the driver's buffer, margins included
        self.addresses: dict[str, Any] = {}  # name -> the part between the margins, as an argument of a kernel
        try:
            for name, size in self._sizes.items():
                self._whole[name] = driver.allocate(max(1, size + 2 * margin))
                driver.fill(self._whole[name], 0, 0, size + 2 * margin)
                self.addresses[name] = driver.address(self._whole[name], margin, size)
        except BaseException:
            self.close()
            raise

    def __contains__(self, name: str) -> bool:
        return name in self._whole

    def write(self, name: str, array: NDArray[Any]) -> None:
        """Copy a contiguous array into a buffer."""
        self._driver.write(self._whole[name], self._margin, array)

    def read(self, name: str, array: NDArray[Any]) -> None:
        """Fill an array from a buffer."""
        self._driver.read(self._whole[name], self._margin, array)

    def poison(self) -> None:
        """Fill the poisoned buffers, and reset the canaries around every buffer."""
        for name, size in self._sizes.items():
            buffer, byte = self._whole[name], self._bytes[name]
            if name in self._poisoned:
                self._driver.fill(buffer, 0, byte, size + 2 * self._margin)
            else:
                self._driver.fill(buffer, 0, byte, self._margin)
                self._driver.fill(buffer, self._margin + size, byte, self._margin)
        self._driver.finish()

    def overrun(self) -> str | None:
        """The name of a buffer that was written outside its bounds since `poison`, or None."""
        margin = np.empty(self._margin, np.uint8)
        for name, size in self._sizes.items():
            for begin in (0, self._margin + size) if self._margin else ():
                self._driver.read(self._whole[name], begin, margin)
                if (margin != self._bytes[name]).any():
                    return name
        return None

    def close(self) -> None:
        """Free the buffers."""
        self.addresses = {}
        for buffer in self._whole.values():
            self._driver.free(buffer)
        self._whole = {}
