"""The opencl backend: any OpenCL device, through pyopencl. PoCL from pip makes every CPU one.

Programs are built once per source and process. PoCL compiles a kernel again for each work-group shape when it is first
launched, so `build` launches once as well, and counts it in `build_seconds`.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from seqtune.errors import DeviceError
from seqtune.kernels.device import Device
from seqtune.kernels.implementation import Array, Implementation, KernelSource, Launch
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.lookup import resolve
from seqtune.kernels.operations.operation import MOST_OPERANDS, Operands
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem

from ..backend import BuildError, LaunchError
from .discovery import devices, error_line, handle, load, unavailable

__all__ = ["OpenCLBackend", "OpenCLExecutable", "devices", "unavailable"]

CANARY = np.uint32(0x7FC0CAFE)  # a NaN that no kernel computes
MARGIN = 1024  # floats of canary on both sides of every buffer; a multiple of any device's alignment


class OpenCLBackend:
    """Builds and runs kernels on one OpenCL device. Raises DeviceError where it is not here."""

    build_allowance = 30.0  # PoCL takes about 1 s, seconds for large unrolled kernels, and links with ld

    def __init__(self, device: Device) -> None:
        names = [found.name for found in devices()]
        if device.name not in names:
            raise DeviceError(f"no device {device.name!r:.60}; found {', '.join(names) or unavailable()}")
        self.device = device
        self.cl = load()
        self.handle = handle(device.name)
        self.context = self.cl.Context([self.handle])
        self.queue = self.cl.CommandQueue(self.context)
        self.programs: dict[KernelSource, Any] = {}

    def build(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> OpenCLExecutable:
        """An executable for this problem, launched once. Raises BuildError, LaunchError."""
        assert kernel.implementation is not None
        implementation: Implementation = resolve(kernel.implementation)  # type: ignore[assignment]
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

    def program(self, source: KernelSource) -> Any:
        """The built program of a source, from this process's earlier builds where it is among them."""
        if source not in self.programs:
            try:
                self.programs[source] = self.cl.Program(self.context, source.text).build(options=list(source.options))
            except self.cl.Error as error:
                raise BuildError(error_line(error)) from None
        return self.programs[source]

    def close(self) -> None:
        """Free the programs."""
        self.programs.clear()
        self.queue.finish()


class OpenCLExecutable:
    """Buffers and kernel objects of one problem."""

    def __init__(self, backend: OpenCLBackend, problem: Problem, configuration: Configuration,
                 implementation: Implementation, program: Any, launch: Launch) -> None:
        self.backend, self.problem, self.configuration = backend, problem, configuration
        self.implementation = implementation
        self.build_seconds = 0.0
        work, cl = operation(problem.type), backend.cl
        self.constant, self.shape = work.constant, work.output(problem)
        self.sizes: dict[str, int] = {}  # floats of every buffer, in the order in which the entry takes them
        for name, shape in work.operands(problem).items():
            zeros = np.zeros(shape, np.float32)
            self.sizes[name] = self._packed(name, zeros).size
        for number in range(len(self.sizes), MOST_OPERANDS):
            self.sizes[f"unused {number}"] = 0
        self.sizes |= {"y": math.prod(self.shape), "workspace": launch.workspace}
        self.whole: dict[str, Any] = {}
        self.inner: dict[str, Any] = {}
        self.steps: list[tuple[Any, tuple[int, ...], tuple[int, ...]]] = []
        try:
            for name, size in self.sizes.items():
                self.whole[name] = cl.Buffer(backend.context, cl.mem_flags.READ_WRITE, 4 * (size + 2 * MARGIN))
            self.inner = {name: whole.get_sub_region(4 * MARGIN, 4 * max(1, self.sizes[name]))
                          for name, whole in self.whole.items()}
            arguments = [*self.inner.values()] + [np.int32(value) for value in launch.arguments]
            for phase in launch.phases:
                kernel = cl.Kernel(program, phase.entry)
                self._check(kernel, phase.local_size)
                kernel.set_args(*arguments)
                self.steps.append((kernel, phase.global_size, phase.local_size))
        except cl.Error as error:
            self.close()
            raise LaunchError(error_line(error)) from None
        for name in self.sizes:  # zeros: the first launch, in `build`, meets no odd numbers
            self._paint(name, 0, self.sizes[name] + 2 * MARGIN, np.uint32(0))

    def _check(self, kernel: Any, local_size: tuple[int, ...]) -> None:
        """PoCL enforces neither limit, and another device would refuse."""
        cl, device = self.backend.cl, self.backend.device
        if int(np.prod(local_size)) > device.max_work_group:
            raise LaunchError(f"a work-group of {local_size} is more than the device's {device.max_work_group}")
        used = kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, self.backend.handle)
        if used > device.local_memory:
            raise LaunchError(f"{used} bytes of local memory are more than the device's {device.local_memory}")

    def _packed(self, name: str, array: Array) -> Array:
        """An operand as the kernel reads it."""
        if name != self.constant:
            return array
        return self.implementation.pack(self.problem, self.backend.device, self.configuration, array)

    def load(self, operands: Operands) -> None:
        """Copy the operands in; the constant one is packed on the way."""
        for name, array in operands.items():
            self.backend.cl.enqueue_copy(self.backend.queue, self.inner[name],
                                         np.ascontiguousarray(self._packed(name, array), np.float32))
        self.backend.queue.finish()

    def poison(self) -> None:
        """NaN into output and workspace, canaries around every buffer."""
        for name, size in self.sizes.items():
            if name in ("y", "workspace"):
                self._paint(name, 0, size + 2 * MARGIN, CANARY)
            else:
                self._paint(name, 0, MARGIN, CANARY)
                self._paint(name, MARGIN + size, MARGIN, CANARY)
        self.backend.queue.finish()

    def _paint(self, name: str, begin: int, count: int, pattern: np.uint32) -> None:
        self.backend.cl.enqueue_fill_buffer(self.backend.queue, self.whole[name], pattern, 4 * begin, 4 * count)

    def run(self) -> None:
        """All phases, finished on return. Raises LaunchError (BuildError where PoCL compiles late and fails)."""
        cl, queue = self.backend.cl, self.backend.queue
        try:
            for kernel, global_size, local_size in self.steps:
                cl.enqueue_nd_range_kernel(queue, kernel, global_size, local_size)
            queue.finish()
        except cl.Error as error:
            failed = BuildError if error.code == cl.status_code.BUILD_PROGRAM_FAILURE else LaunchError
            raise failed(error_line(error)) from None

    def output(self) -> Array:
        """A copy of y."""
        y = np.empty(self.shape, np.float32)
        self.backend.cl.enqueue_copy(self.backend.queue, y, self.inner["y"])
        return y

    def overrun(self) -> str | None:
        """The first buffer with a changed canary."""
        found = np.empty(MARGIN, np.uint32)
        for name, size in self.sizes.items():
            for begin in (0, MARGIN + size):
                self.backend.cl.enqueue_copy(self.backend.queue, found, self.whole[name], src_offset=4 * begin)
                if (found != CANARY).any():
                    return name
        return None

    def close(self) -> None:
        """Free the buffers."""
        self.steps = []
        for buffer in (*self.inner.values(), *self.whole.values()):
            buffer.release()
        self.inner, self.whole = {}, {}
