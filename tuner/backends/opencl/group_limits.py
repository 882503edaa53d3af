"""GroupLimits: refuses work-groups beyond the device's limits, which PoCL does not enforce, and beyond the kernel's.

A driver that has compiled a kernel knows how many work-items its registers allow: GPUs of phones run far fewer of a
large kernel than the device's limit says, and may not refuse more. There the fact `max_work_group` is what such a
kernel allows, so that proposals run; a small kernel of somebody else may have larger groups, as far as the driver says.

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
        info = cl.kernel_work_group_info
        self._local_memory, self._work_items = info.LOCAL_MEM_SIZE, info.WORK_GROUP_SIZE
        self._handle, self._device = handle, device
        self._largest = max(device.max_work_group, handle.max_work_group_size)

    def check(self, kernel: Any, work_items: int, local_bytes: int = 0) -> None:
        """Check a work-group that has local memory of so many bytes beside the kernel's own. Raises LaunchError."""
        if work_items > self._largest:
            raise LaunchError(f"a work-group of {work_items} work-items exceeds the device's limit of {self._largest}")
        most = kernel.get_work_group_info(self._work_items, self._handle)
        if work_items > most:
            raise LaunchError(f"a work-group of {work_items} work-items exceeds the {most} that this kernel allows")
        used = kernel.get_work_group_info(self._local_memory, self._handle) + local_bytes
        if used > self._device.local_memory:
            raise LaunchError(f"{used} bytes of local memory exceed the device's {self._device.local_memory}")
