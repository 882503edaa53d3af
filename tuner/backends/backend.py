"""Backend: builds a configuration for a device and runs it. Each backend is a folder, whose class BACKENDS lists.

A backend runs in the measuring worker and also in the user's process. It builds Executables: an Executable owns the
buffers of one problem, fills them, launches the kernel and reads the output. Equal sources are built once per process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from numpy.typing import NDArray

from seqtune.errors import DeviceError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.launches.call_declaration import code_for
from seqtune.kernels.lookup import resolve
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage


class BuildError(Exception):
    """The compiler refused the source; becomes Status.COMPILE."""


class LaunchError(Exception):
    """The driver refused the launch; becomes Status.RUNTIME. `resources` are those of the kernel that was built."""

    def __init__(self, message: str, resources: ResourceUsage | None = None) -> None:
        super().__init__(message)
        self.resources = resources


class TimeLimit(LaunchError):
    """A program ran longer than its library allows; becomes Status.TIMEOUT."""


class DeviceLost(Exception):
    """The device can no longer be used by this process. The measuring worker exits; a new one measures the rest."""


def wall_clock(run: Callable[[], object], launches: int) -> float:
    """The seconds of `launches` calls of `run`, each of which waits for its end; the timing of backends on the CPU."""
    begin = time.perf_counter()
    for _ in range(launches):
        run()
    return time.perf_counter() - begin


class Executable(Protocol):
    """A built configuration with its buffers. Not thread-safe; close it when done."""

    build_seconds: float
    resources: ResourceUsage | None  # None where the backend cannot tell: on the CPU

    def load(self, operands: Operands) -> None:
        """Copy the operands into the buffers, the constant one packed.

        Names and shapes are those of `Operation.tensors`, whose outputs may have contents, too.
        """
        ...

    def poison(self) -> None:
        """Poison outputs and workspaces (`ElementType.poison`), and reset the canaries around every buffer.

        Outputs with contents are reset to these instead.
        """
        ...

    def run(self) -> None:
        """Launch once and wait until it has finished. Raises LaunchError."""
        ...

    def time(self, launches: int) -> float:
        """Launch `launches` times; returns the seconds of all, by the clock that suits the device.

        What is restored before a launch is not timed. Raises LaunchError.
        """
        ...

    def outputs(self) -> Mapping[str, NDArray[Any]]:
        """Copies of all outputs by name, in the problem's shapes and layouts; bf16 as float32."""
        ...

    def overrun(self) -> str | None:
        """The name of a buffer that was written outside its bounds since `poison`, or None."""
        ...

    def close(self) -> None:
        """Free the buffers."""
        ...


@runtime_checkable
class SelfChecked(Protocol):
    """An executable that knows whether its last run was correct: a program that reports its error."""

    run_allowance: float  # seconds that checking and timing may take even where `Options.run_seconds` is less

    def output_check(self) -> OutputCheck:
        """The check of the last run's outputs."""
        ...


@runtime_checkable
class Restoring(Protocol):
    """An executable that restores what a launch changes, before each launch after the first one since `poison`."""

    def restored(self) -> tuple[str, ...]:
        """The names of the buffers that are restored; none if the first launch changed no contents.

        Raises LaunchError.
        """
        ...


class OutputCheck(NamedTuple):
    """The outcome of a check: correct if there is no message."""

    error: float | None  # the largest of all outputs (see `Measurement`); None if it is not known
    message: str = ""


@runtime_checkable
class ExecutableFactory(Protocol):
    """An implementation that makes its own executables: it calls a library or a program instead of a source's entry."""

    includes: str  # see `seqtune.kernels.launches.implementation.Implementation`

    def executable(self, backend: Backend, problem: Problem, configuration: Configuration) -> Executable:
        """Make an executable on the backend's device. Raises BuildError or LaunchError, as `Backend.build`."""
        ...


class ReferenceWork(Protocol):
    """Work of known time on all threads of a device; see `seqtune.tuner.measuring.pace`."""

    expected: float  # seconds on a quiet machine

    def seconds(self) -> float:
        """Do the work once, and return its time in seconds. Raises LaunchError."""
        ...


class Backend(Protocol):
    """Builds and runs configurations on one device."""

    device: Device
    build_allowance: float  # seconds that a build may take even where `Options.build_seconds` is less
    checks_itself: bool  # all executables are SelfChecked: they need neither operands nor a reference

    @property
    def reference_work(self) -> ReferenceWork | None:
        """Work that shows whether the device is slow now; None where nothing else can slow it down unnoticed."""
        ...

    def build(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> Executable:
        """Build an executable for the problem. Raises BuildError, or LaunchError if the device refuses the launch."""
        ...

    def close(self) -> None:
        """Stop threads and free the device."""
        ...


def build_executable(backend: Backend, problem: Problem, kernel: Kernel, configuration: Configuration) -> Executable:
    """Build an executable of any kernel: by its implementation if that makes its own, else by the backend.

    Raises BuildError or LaunchError.
    """
    code = None if kernel.implementation is None else code_for(kernel, backend.device.backend)
    if isinstance(code, ExecutableFactory):
        return code.executable(backend, problem, configuration)
    return backend.build(problem, kernel, configuration)


# name -> "module:attribute". The attribute is a callable Backend(device). The module also defines devices() ->
# list[Device] and unavailable() -> str | None, the reason why there is no device. A new backend is a new folder and a
# line here; further tables are for backends with more: NAMED in `discovery`, OFFLINE_COMPILERS and COMPILERS_AHEAD in
# `compilers`.
BACKENDS: dict[str, str] = {
    "llvm": "seqtune.tuner.backends.llvm.backend:LLVMBackend",
    "opencl": "seqtune.tuner.backends.opencl.backend:OpenCLBackend",
    "triton": "seqtune.tuner.backends.triton.backend:TritonBackend",
    "cuda": "seqtune.tuner.backends.cuda.backend:CudaBackend",
    "command": "seqtune.tuner.backends.command.backend:CommandBackend",
}


def open_backend(device: Device) -> Backend:
    """Open the backend of the device, ready to build. Raises DeviceError or UnavailableError."""
    if device.backend not in BACKENDS:
        raise DeviceError(f"no backend runs {device.backend} kernels; the backends are {', '.join(BACKENDS)}")
    factory = resolve(BACKENDS[device.backend])
    assert callable(factory)
    backend: Backend = factory(device)
    return backend
