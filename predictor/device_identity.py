"""The identity of a device together with the machine that it is on, as text."""

from __future__ import annotations

from functools import lru_cache

from seqtune.kernels.devices.device import Device

LONGEST_IDENTITY = 1000  # characters


@lru_cache(maxsize=256)
def identity(device: Device) -> str:
    """The device and the machine that it is on, as text."""
    return f"{device.key} {device.fingerprint}"[:LONGEST_IDENTITY]
