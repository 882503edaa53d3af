"""BoundKernel: a built configuration on constant weights, run on memory that its user owns.

An Executable owns its operands, as measuring needs; a BoundKernel is what a model keeps of a layer: code, packed
weights and one small job. It adds a few microseconds to the kernel's own time. The kernels of one KernelBinder share
its threads and workspace.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import DeviceError
from seqtune.kernels.device import Device
from seqtune.kernels.implementation import Array, Implementation, KernelSource, Launch
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.lookup import resolve
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel

from .compiler import Compiler
from .threads import make_job

X, OTHER, Y = 0, 1, 3  # places in a job


class ThreadPool(Protocol):
    """Threads that run jobs: `threads.Threads` or `openmp.OpenMP`."""

    count: int

    def run(self, job: int) -> None:
        """Run a job, given by its address; finished on return."""
        ...

    def run_all(self, jobs: NDArray[np.int64]) -> None:
        """Run jobs one after the other."""
        ...


class KernelBinder:
    """Binds configurations of one llvm device to weights. What it binds runs one at a time."""

    def __init__(self, device: Device, compiler: Compiler, threads: ThreadPool) -> None:
        if device.backend != "llvm":
            raise DeviceError(f"{device.name} does not run on this process's memory; use an llvm device")
        self.device = device
        self.threads = threads
        self._compiler = compiler
        self._workspace = aligned((0,))

    def bind(self, problem: Problem, configuration: Configuration, weights: Array, bias: Array | None) -> BoundKernel:
        """Bind a configuration to these weights. Raises BuildError."""
        reference = kernel(configuration.kernel).implementation
        if reference is None:
            raise DeviceError(f"{configuration.kernel} has nothing to run")
        implementation: Implementation = resolve(reference)  # type: ignore[assignment]
        return self.bind_source(implementation.source(problem, self.device, configuration),
                                implementation.launch(problem, self.device, configuration),
                                implementation.pack(problem, self.device, configuration, weights), bias)

    def bind_source(self, source: KernelSource, launch: Launch, weights: Array | None = None,
                    bias: Array | None = None) -> BoundKernel:
        """Bind a source that is no kernel family's. Raises BuildError."""
        built, _ = self._compiler.build(source.text, source.options)
        if launch.workspace > self._workspace.size:
            self._workspace = aligned((launch.workspace,))
        arguments = np.array(launch.arguments, np.int64)
        kept = [copy(weights), copy(bias), self._workspace]
        packed, added, workspace = (0 if array is None else int(array.ctypes.data) for array in kept)
        job = make_job((0, packed, added, 0, workspace), arguments,
                       [(built.address(phase.entry), phase.tasks) for phase in launch.phases])
        return BoundKernel(self.threads, job, [built, arguments, *kept])


class BoundKernel:
    """A kernel on its weights. Each call reads `x` and writes `y`, addresses of memory in the problem's layout.

    `job[X]`, `job[OTHER]` and `job[Y]` are those addresses, for who runs several jobs at once.
    """

    def __init__(self, threads: ThreadPool, job: NDArray[np.int64], kept: list[object]) -> None:
        self.job, self.address = job, int(job.ctypes.data)
        self._run, self._kept = threads.run, kept

    def __call__(self, x: int, y: int) -> None:
        """One launch, finished on return."""
        self.job[X] = x
        self.job[Y] = y
        self._run(self.address)

    def with_other(self, x: int, other: int, y: int) -> None:
        """The same where the second operand changes too."""
        self.job[OTHER] = other
        self(x, y)


def aligned(shape: tuple[int, ...]) -> Array:
    """Uninitialised floats on a cache line's border."""
    size = 4 * int(np.prod(shape))
    raw = np.empty(size + 64, np.uint8)
    begin = -raw.ctypes.data % 64
    return raw[begin:begin + size].view(np.float32).reshape(shape)


def copy(array: Array | None) -> Array | None:
    """A copy on a cache line's border."""
    if array is None:
        return None
    found = aligned(array.shape)
    np.copyto(found, array)
    return found
