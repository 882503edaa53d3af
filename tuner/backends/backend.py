"""Backend: builds a configuration for a device and runs it. One implementation per file, named in BACKENDS.

A backend lives in the measuring worker and in the user's process alike. What it builds is an Executable: buffers for
one problem, filled, launched and read back. Backends build equal sources once (`KernelSource` equality) per process.
"""

from __future__ import annotations

from typing import Protocol

from seqtune.errors import DeviceError
from seqtune.kernels.device import Device
from seqtune.kernels.implementation import Array
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.lookup import resolve
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.problem import Problem


class BuildError(Exception):
    """The compiler refused the source; becomes Status.COMPILE."""


class LaunchError(Exception):
    """The driver refused the launch; becomes Status.RUNTIME."""


class Executable(Protocol):
    """A built configuration with its buffers. Not thread-safe; close it when done."""

    build_seconds: float

    def load(self, operands: Operands) -> None:
        """Copy the operands in, packing the constant one. Names and shapes are those of the operation's `operands`."""
        ...

    def poison(self) -> None:
        """Fill output and workspace with NaN, and reset the canaries around every buffer."""
        ...

    def run(self) -> None:
        """One launch, finished on return: what is timed. Raises LaunchError."""
        ...

    def output(self) -> Array:
        """A copy of the output, in the problem's shape and layout."""
        ...

    def overrun(self) -> str | None:
        """Which buffer was written outside its bounds since `poison`, or None."""
        ...

    def close(self) -> None:
        """Free the buffers."""
        ...


class Backend(Protocol):
    """Builds and runs configurations on one device."""

    device: Device
    build_allowance: float  # seconds that a build may take here, whatever `Options.build_seconds` says

    def build(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> Executable:
        """An executable for this problem. Raises BuildError; LaunchError where the device refuses the launch."""
        ...

    def close(self) -> None:
        """Stop threads and free the device."""
        ...


# name -> "module:attribute" of a module with: devices() -> list[Device], unavailable() -> str | None (why), and the
# attribute, a callable Backend(device). A new backend is one new file and one line here.
BACKENDS: dict[str, str] = {
    "llvm": "seqtune.tuner.backends.llvm.backend:LLVMBackend",
    "opencl": "seqtune.tuner.backends.opencl.backend:OpenCLBackend",
}


def open_backend(device: Device) -> Backend:
    """A backend ready to build on the device. Raises DeviceError or UnavailableError."""
    if device.backend not in BACKENDS:
        raise DeviceError(f"nothing here runs {device.backend} kernels; there are {', '.join(BACKENDS)}")
    factory = resolve(BACKENDS[device.backend])
    assert callable(factory)
    backend: Backend = factory(device)
    return backend
