"""The opencl backend: any OpenCL device, through pyopencl. With PoCL, which pip installs, every CPU is one; with
Intel's runtime, an extra, a second one.

Programs are built once per source and process. PoCL compiles a kernel again at its first launch with a work-group
shape. Therefore `build` launches once, too, and `build_seconds` includes that launch.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from seqtune.errors import DeviceError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.lookup import resolve
from seqtune.kernels.problem import Problem

from ..backend import Executable
from ..called_executable import CalledExecutable
from ..stored_operands import StoredOperands
from .calls import GroupLimits, OpenCLCalls
from .discovery import devices, handle, load, unavailable
from .probe import OpenCLReferenceWork
from .programs import build

MOST_KEPT = 1 << 28  # bytes of packed operands in the host's memory, which often is the device's

# name of an installed library that computes on OpenCL queues -> "module:attribute" of its Executable
LIBRARIES = {"clblast": "seqtune.integrations.clblast.backend.executable:CLBlastExecutable"}


class OpenCLBackend:
    """Builds and runs kernels on one OpenCL device. Raises DeviceError if this machine does not have the device."""

    build_allowance = 30.0  # PoCL takes about 1 s, more for large unrolled kernels, and then links with ld
    checks_itself = False

    def __init__(self, device: Device) -> None:
        names = [present.name for present in devices()]
        if device.name not in names:
            raise DeviceError(f"no device {device.name!r:.60}; found {', '.join(names) or unavailable()}")
        self.device = device
        self.cl = load()
        self.handle = handle(device.name)
        self.context = self.cl.Context([self.handle])
        self.queue = self.cl.CommandQueue(self.context)
        self.limits = GroupLimits(self.cl, self.handle, device)
        self.programs: dict[KernelSource, Any] = {}
        self.operands = StoredOperands(MOST_KEPT)

    def build(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> CalledExecutable:
        """Build an executable for the problem and launch it once. Raises BuildError or LaunchError."""
        return CalledExecutable.of(self.calls, self.operands, problem, self.device, kernel, configuration)

    def call_library(self, name: str, problem: Problem, configuration: Configuration) -> Executable:
        """Make an executable that calls a library of LIBRARIES. Raises BuildError, LaunchError or UnavailableError."""
        factory = resolve(LIBRARIES[name])
        assert callable(factory)
        executable: Executable = factory(self, problem, configuration)
        return executable

    @cached_property
    def reference_work(self) -> OpenCLReferenceWork | None:
        """Work of known time, to notice when this CPU is slow; None for GPUs, and where the rate is not known."""
        known = self.device.threads > 0 and self.device.peak_gflops > 0  # threads are a CPU's
        return OpenCLReferenceWork(self.cl, self.context, self.queue, self.device) if known else None

    @cached_property
    def calls(self) -> OpenCLCalls:
        """Memory and launches of the device."""
        return OpenCLCalls(self.cl, self.context, self.queue, self.limits, self.program,
                           on_cpu=self.device.threads > 0)

    def program(self, source: KernelSource) -> Any:
        """The program of a source, built once per process. Raises BuildError."""
        if source not in self.programs:
            self.programs[source] = build(self.cl, self.context, source.text, source.options)
        return self.programs[source]

    def object_bytes(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> int:
        """The bytes of the driver's binary of a configuration's program. Raises BuildError."""
        program = self.program(call_of(kernel, problem, self.device, configuration).source)
        return sum(map(len, program.get_info(self.cl.program_info.BINARIES)))

    def close(self) -> None:
        """Free the programs and wait for the device."""
        self.programs.clear()
        self.queue.finish()
