"""CompiledStep: the needs of one step of a call as the compiler built it, for devices that need not be present."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.occupancy import Occupancy, occupancy
from seqtune.kernels.resource_usage import ResourceUsage


@dataclass(frozen=True, slots=True)
class CompiledStep:
    """Registers of a thread; threads and bytes of shared memory (static and dynamic) of a block."""

    entry: str
    threads: int
    most_threads: int  # for which the compiler built it; 0: no such bound
    registers: int
    shared: int
    spill_bytes: int  # stored and loaded by a thread

    def occupancy(self, device: Device) -> Occupancy:
        """The blocks that a unit of the device holds."""
        return occupancy(device, self.threads, self.registers, self.shared)

    def usage(self, device: Device) -> ResourceUsage:
        """The needs to keep with a measurement on the device."""
        return ResourceUsage(self.registers, self.shared, self.spill_bytes, self.occupancy(device).share)


def resource_usage(steps: Iterable[CompiledStep], device: Device) -> ResourceUsage | None:
    """The worst needs of the steps of a call; None if it has none."""
    return ResourceUsage.worst(step.usage(device) for step in steps)
