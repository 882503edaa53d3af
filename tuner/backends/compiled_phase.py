"""CompiledPhase: the needs of one phase of a launch as the compiler built it, for devices that need not be present."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.occupancy import Occupancy, occupancy
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage


@dataclass(frozen=True, slots=True)
class CompiledPhase:
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


def resource_usage(phases: Iterable[CompiledPhase], device: Device) -> ResourceUsage | None:
    """The worst needs of the phases of a launch; None if it has none."""
    return ResourceUsage.worst(phase.usage(device) for phase in phases)


class OfflineCompiler(Protocol):
    """Compiles configurations for a device that need not be present. Threads may share it."""

    def phases(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> tuple[CompiledPhase, ...]:
        """Compile a configuration. Raises BuildError."""
        ...


# backend -> "module:attribute", a callable OfflineCompiler(device) that raises UnavailableError.
OFFLINE_COMPILERS: dict[str, str] = {
    "cuda": "seqtune.tuner.backends.cuda.compiler:CubinCompiler",
    "triton": "seqtune.tuner.backends.triton.compiler:TritonCompiler",
}
