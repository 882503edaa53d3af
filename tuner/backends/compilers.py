"""Compilers that need no device: to learn what kernels need, and to compile before the measuring worker asks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Protocol

from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.occupancy import Occupancy, occupancy
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.lookup import resolve
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage

from ..processes import processors


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


class ObjectCompiler(Protocol):
    """Tells how much room a configuration takes in a library that ships it compiled."""

    def object_bytes(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> int:
        """The bytes of an object file, a program's binary or a cubin. Raises BuildError, and KernelError without code.
        """
        ...


class OfflineCompiler(ObjectCompiler, Protocol):
    """Compiles configurations for a device that need not be present. Threads may share it."""

    def steps(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> tuple[CompiledStep, ...]:
        """Compile a configuration and return the needs of its launches. Raises BuildError."""
        ...


class CompilerAhead(Protocol):
    """Compiles the kernels of one device on all cores, where they can neither end nor hold up the caller."""

    def start(self, problem: Problem, configurations: Sequence[Configuration]) -> list[Future[bool]]:
        """Begin to compile what the configurations need; a future for each source, empty if it compiles none."""
        ...

    def stop(self) -> None:
        """Give up what is not compiled yet, and end everything that compiles."""
        ...


# backend -> "module:attribute", a callable OfflineCompiler(device) that raises UnavailableError.
OFFLINE_COMPILERS: dict[str, str] = {
    "cuda": "seqtune.tuner.backends.cuda.compiler:CubinCompiler",
    "triton": "seqtune.tuner.backends.triton.compiler:TritonCompiler",
    "llvm": "seqtune.tuner.backends.llvm.offline_compiler:LLVMOfflineCompiler",
}
# backend -> "module:attribute", a callable ObjectCompiler(device) that raises UnavailableError. Others tell no sizes.
OBJECT_COMPILERS: dict[str, str] = {
    **OFFLINE_COMPILERS, "opencl": "seqtune.tuner.backends.opencl.backend:OpenCLBackend"}
# backend -> "module:attribute", a callable CompilerAhead(device). Other backends compile in the worker only.
COMPILERS_AHEAD: dict[str, str] = {
    "cuda": "seqtune.tuner.backends.cuda.cubins_ahead:CubinsAhead",
}


def compiler_ahead(device: Device) -> CompilerAhead | None:
    """The compiler ahead of a device's backend, or None if the backend has none."""
    reference = COMPILERS_AHEAD.get(device.backend)
    return None if reference is None else resolve(reference)(device)  # type: ignore[operator]


def compile_all(ahead: CompilerAhead, problem: Problem, configurations: Sequence[Configuration],
                allowance: Callable[[], float], most_seconds: float, cores: int | None = None) -> None:
    """Compile what the configurations need on all cores (None: this machine's), and give up what takes too long.

    A kernel may take the seconds of `allowance`, which is asked only if something is compiled, and all together
    `most_seconds`.
    """
    compiling = ahead.start(problem, configurations)
    if compiling:
        seconds = min(allowance() * math.ceil(len(compiling) / (cores or processors())), most_seconds)
        _, late = wait(compiling, timeout=seconds if math.isfinite(seconds) else None)
        if late:
            ahead.stop()
