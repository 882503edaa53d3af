"""The opencl backend: any OpenCL device, through pyopencl. With PoCL, which pip installs, every CPU is one; with
Intel's runtime, an extra, a second one.

Programs are built once per source and process. PoCL compiles a kernel again at its first launch with a work-group
shape. Therefore `build` launches once, too, and `build_seconds` includes that launch.
"""

from __future__ import annotations

import math
import time
from functools import cached_property
from typing import Any

import numpy as np

from seqtune.errors import DeviceError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.launches.implementation import Array, Implementation, KernelSource, Launch, implementation_of
from seqtune.kernels.lookup import resolve
from seqtune.kernels.operations.operation import MOST_OPERANDS, Operands
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage

from ..backend import BuildError, Executable, LaunchError, wall_clock
from ..guarded_buffers import GuardedBuffers
from .calls import OpenCLCalls
from .discovery import devices, handle, load, unavailable
from .group_limits import GroupLimits
from .programs import build, error_line
from .reference_work import OpenCLReferenceWork

__all__ = ["OpenCLBackend", "OpenCLExecutable", "devices", "unavailable"]

# name of an installed library that computes on OpenCL queues -> "module:attribute" of its Executable
LIBRARIES = {"clblast": "seqtune.tuner.backends.clblast.executable:CLBlastExecutable"}


class OpenCLBackend:
    """Builds and runs kernels on one OpenCL device. Raises DeviceError if this machine does not have the device."""

    build_allowance = 30.0  # PoCL takes about 1 s, more for large unrolled kernels, and then links with ld

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

    def build(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> OpenCLExecutable:
        """Build an executable for the problem and launch it once. Raises BuildError or LaunchError."""
        implementation = implementation_of(kernel)
        begin = time.perf_counter()
        program = self.program(implementation.source(problem, self.device, configuration))
        launch = implementation.launch(problem, self.device, configuration)
        executable = OpenCLExecutable(self, problem, configuration, implementation, program, launch)
        try:
            executable.run()
        except (BuildError, LaunchError):
            executable.close()
            raise
        executable.build_seconds = time.perf_counter() - begin
        return executable

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
        """Memory and launches for called kernels."""
        return OpenCLCalls(self.cl, self.context, self.queue, self.limits, self.program)

    def program(self, source: KernelSource) -> Any:
        """The program of a source, built once per process. Raises BuildError."""
        if source not in self.programs:
            self.programs[source] = build(self.cl, self.context, source.text, source.options)
        return self.programs[source]

    def close(self) -> None:
        """Free the programs and wait for the device."""
        self.programs.clear()
        self.queue.finish()


class OpenCLExecutable:
    """A built configuration with its buffers; see `seqtune.tuner.backends.backend.Executable`."""

    def __init__(self, backend: OpenCLBackend, problem: Problem, configuration: Configuration,
                 implementation: Implementation, program: Any, launch: Launch) -> None:
        self.backend, self.problem, self.configuration = backend, problem, configuration
        self.implementation = implementation
        self.build_seconds = 0.0
        self.resources: ResourceUsage | None = None
        work, cl = operation(problem.type), backend.cl
        self.constant, self.shape = work.constant, work.output(problem)
        sizes: dict[str, int] = {}  # buffer -> bytes, in the order of the kernel's arguments
        for name, shape in work.operands(problem).items():
            sizes[name] = 4 * self._packed(name, np.zeros(shape, np.float32)).size
        for number in range(len(sizes), MOST_OPERANDS):
            sizes[f"unused {number}"] = 0
        sizes |= {"y": 4 * math.prod(self.shape), "workspace": 4 * launch.workspace}
        self.buffers = GuardedBuffers(backend.calls, sizes, ["y", "workspace"])
        self.steps: list[tuple[Any, tuple[int, ...], tuple[int, ...]]] = []
        try:
            arguments = [*self.buffers.addresses.values()] + [np.int32(value) for value in launch.arguments]
            for phase in launch.phases:
                kernel = cl.Kernel(program, phase.entry)
                backend.limits.check(kernel, math.prod(phase.local_size))
                kernel.set_args(*arguments)
                self.steps.append((kernel, phase.global_size, phase.local_size))
        except cl.Error as error:
            self.close()
            raise LaunchError(error_line(error)) from None

    def _packed(self, name: str, array: Array) -> Array:
        """The operand as the kernel reads it: the constant one packed."""
        if name != self.constant:
            return array
        return self.implementation.pack(self.problem, self.backend.device, self.configuration, array)

    def load(self, operands: Operands) -> None:
        """Copy the operands into the buffers, the constant one packed."""
        for name, array in operands.items():
            self.buffers.write(name, np.ascontiguousarray(self._packed(name, array), np.float32))
        self.backend.queue.finish()

    def poison(self) -> None:
        """Fill output and workspace with NaN, and reset the canaries around every buffer."""
        self.buffers.poison()

    def run(self) -> None:
        """Launch all phases and wait until they have finished.

        Raises LaunchError, or BuildError where PoCL compiles only at the launch and fails.
        """
        cl, queue = self.backend.cl, self.backend.queue
        try:
            for kernel, global_size, local_size in self.steps:
                cl.enqueue_nd_range_kernel(queue, kernel, global_size, local_size)
            queue.finish()
        except cl.Error as error:
            failure = BuildError if error.code == cl.status_code.BUILD_PROGRAM_FAILURE else LaunchError
            raise failure(error_line(error)) from None

    def time(self, launches: int) -> float:
        """Launch so many times; returns the seconds by the wall clock."""
        return wall_clock(self.run, launches)

    def output(self) -> Array:
        """A copy of the output, in the problem's shape and layout."""
        y = np.empty(self.shape, np.float32)
        self.buffers.read("y", y)
        return y

    def overrun(self) -> str | None:
        """The name of a buffer that was written outside its bounds since `poison`, or None."""
        return self.buffers.overrun()

    def close(self) -> None:
        """Free the buffers."""
        self.steps = []
        self.buffers.close()
