"""Device similarity: how much the times on one device tell about the times on another one.

Two devices of one architecture run the same machine code. Another generation of the same maker differs in caches,
units and rates; another maker's device is also programmed through another compiler, and what is fast there tells
little. Threads that work in lock step (a warp, a wave) decide which blocks leave lanes idle.
"""

from __future__ import annotations

from dataclasses import dataclass

from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.devices.device import Device

# Factors of the weight of a device that differs. Near the optimum, log times of two generations differ by 0.02 to 0.5
# (rms) on recorded spaces. No two GPUs of one architecture are there; these should differ by a few hundredths.
OTHER_ARCHITECTURE = 0.2
OTHER_WARP = 0.5
OTHER_MAKER = 0.05  # 0.05 to 0.2 give about the same on recorded spaces; equal weights lose a tenth of the speed
MAKERS = {"sm_": "nvidia", "gfx": "amd"}  # by the first letters of their architectures


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """The facts that two devices may have in common, as far as they are known."""

    maker: str
    architecture: str
    warp: int  # threads that work in lock step; 0: not known

    @classmethod
    def of(cls, device: Device) -> DeviceKind:
        """The kind of a device: by its own facts, or, if it is a name in records only, by the table of accelerators.

        A device that the table lacks has the maker and architecture that its record names.
        """
        known = device
        if "warp_size" not in dict(device.extra):
            names = (device.model, device.name.partition(":")[2])
            known = next((entry for name in names if (entry := described("triton", name)) is not None), device)
        warp = dict(known.extra).get("warp_size", 0)
        maker = MAKERS.get(known.architecture[:3], known.architecture)
        return cls(maker, known.architecture, warp if isinstance(warp, int) else 0)


def similarity(first: DeviceKind, second: DeviceKind) -> float:
    """The weight of times on one device for what is expected on the other: 1 on the same architecture, else less."""
    weight = 1.0
    if first.architecture != second.architecture:
        weight *= OTHER_ARCHITECTURE
    if first.maker != second.maker:
        weight *= OTHER_MAKER
    if first.warp != second.warp and first.warp and second.warp:
        weight *= OTHER_WARP
    return weight
