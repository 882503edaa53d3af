"""GroupLimits: refuses work-groups beyond the device's limits, which PoCL does not enforce.

PoCL 5.0 for CPUs reports 0 bytes for the local memory that a kernel declares itself, and ends the process at a launch
beyond the limit. That can only be a kernel of somebody else: ours stay within the limit by their constraints. The
worker dies then, and the record says `crash`.
"""

from __future__ import annotations

from typing import Any

from seqtune.kernels.devices.device import Device

from ..backend import LaunchError


class GroupLimits:
    """The limits of a device; `handle` is the driver's object for it."""

    def __init__(self, cl: Any, handle: Any, device: Device) -> None:
        self._info = cl.kernel_work_group_info.LOCAL_MEM_SIZE
        self._handle, self._device = handle, device

    def check(self, kernel: Any, work_items: int, local_bytes: int = 0) -> None:
        """Check a work-group that has local memory of so many bytes beside the kernel's own. Raises LaunchError."""
        if work_items > self._device.max_work_group:
            raise LaunchError(f"a work-group of {work_items} work-items exceeds the device's limit of "
                              f"{self._device.max_work_group}")
        used = kernel.get_work_group_info(self._info, self._handle) + local_bytes
        if used > self._device.local_memory:
            raise LaunchError(f"{used} bytes of local memory exceed the device's {self._device.local_memory}")
