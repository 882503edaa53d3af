"""Device rates: the measured facts of a device that the table of devices has no columns for, as a line of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device


def measured_reads(device: Device) -> str:
    """Reads from caches, waking threads and gathering, as text."""
    reads = ", ".join(f"{level} {rate:.0f}" for level, rate in (
        ("L1", device.l1_gbs), ("L2", device.l2_gbs), ("L3", device.l3_gbs)) if rate)
    wakes = f"; threads wake in {device.wake_microseconds:.2g} us" if device.wake_microseconds else ""
    return f"reads {reads} GB/s{wakes}; {device.gather_nanoseconds:.2g} ns to gather a number"
