"""BoundKernel: a built configuration with constant weights, which runs on memory that the caller owns.

An Executable owns copies of all operands, as measuring needs; a BoundKernel owns only what a model needs for a layer:
code, packed weights and one small job. A call takes a few microseconds more than the kernel itself. The bound kernels
of one KernelBinder share its threads, its workspace and equal weights: a model with many input shapes has a program for
each, and further programs need hardly any memory.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import DeviceError, KernelError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.implementation import Array, KernelSource
from seqtune.kernels.llvm.aligned import aligned, is_aligned
from seqtune.kernels.llvm.fusion import NONE, FusingImplementation, Fusion
from seqtune.kernels.llvm.launch import Launch, llvm_implementation
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.tuner.backends.llvm.compiler import Compiler
from seqtune.tuner.backends.llvm.threads import make_job, phases_of

SAMPLED = 1024  # elements that choose the array to compare with


class Scratch:
    """Uninitialised memory that one program of a device uses at a time.

    It at least doubles when it grows: all arrays ever returned together take less than four times the largest.
    """

    def __init__(self) -> None:
        self._array = aligned((0,))

    def take(self, floats: int) -> Array:
        """An array of at least `floats` floats; later calls return the same memory."""
        if floats > self._array.size:
            self._array = aligned((max(floats, 2 * self._array.size),))
        return self._array


class SharedConstants:
    """Constants that begin at a cache line; equal ones are one array, which lives as long as somebody holds it.

    Several threads may keep arrays.
    """

    def __init__(self) -> None:
        self._arrays: WeakValueDictionary[Any, NDArray[Any]] = WeakValueDictionary()
        self._lock = threading.Lock()

    def keep(self, array: NDArray[Any], given: bool = False) -> NDArray[Any]:
        """An array with the same bytes, which must not be written.

        With `given`, the caller will not write the array; it is kept without a copy if it begins at a cache line.
        """
        bits = np.ascontiguousarray(array).reshape(-1).view(f"u{array.itemsize}")  # 0 and -0 differ, NaN equals itself
        sample = np.ascontiguousarray(bits[::-(-bits.size // SAMPLED) or 1])
        key = array.shape, array.dtype, zlib.crc32(sample.tobytes())
        with self._lock:
            known = self._arrays.get(key)
            if known is not None and (known is array or np.array_equal(known.reshape(-1).view(bits.dtype), bits)):
                return known
            if given and is_aligned(array):
                kept = array
            else:
                kept = aligned(array.shape, array.dtype)
                np.copyto(kept, array)
            self._arrays[key] = kept
            return kept


X, OTHER, BIAS, Y = 0, 1, 2, 3  # indices in a job


class ThreadPool(Protocol):
    """Threads that run jobs: `threads.Threads` or `openmp.OpenMP`."""

    count: int

    def run(self, job: int) -> None:
        """Run the job at this address and wait until it has finished."""
        ...

    def run_all(self, jobs: NDArray[np.int64]) -> None:
        """Run the jobs at these addresses, one after the other."""
        ...


class KernelBinder:
    """Binds configurations of one llvm device to weights. Only one of its bound kernels may run at a time.

    Raises DeviceError for a device of another backend.
    """

    def __init__(self, device: Device, compiler: Compiler, threads: ThreadPool,
                 scratch: Callable[[], Scratch] = Scratch, constants: SharedConstants | None = None) -> None:
        if device.backend != "llvm":
            raise DeviceError(f"{device.name} does not run on this process's memory; use an llvm device")
        self.device = device
        self.threads = threads
        self._compiler = compiler
        self.blocks = scratch()  # memory of the programs' intermediate results
        self._workspaces = scratch()
        self._constants = SharedConstants() if constants is None else constants

    def bind(self, problem: Problem, configuration: Configuration, weights: Array, bias: Array | None,
             fusion: Fusion = NONE) -> BoundKernel:
        """Bind a configuration to these weights.

        Raises BuildError, and KernelError without an implementation or where it does not know the fusion.
        """
        return self.bind_packed(problem, configuration, self.pack(problem, configuration, weights), bias, fusion)

    def bind_packed(self, problem: Problem, configuration: Configuration, packed: Array, bias: Array | None,
                    fusion: Fusion = NONE) -> BoundKernel:
        """Bind a configuration to what `pack` returned for it. Raises like `bind`."""
        implementation = llvm_implementation(kernel(configuration.kernel))
        if isinstance(implementation, FusingImplementation):
            return self.bind_source(implementation.source(problem, self.device, configuration, fusion),
                                    implementation.launch(problem, self.device, configuration, fusion), packed, bias)
        if not fusion.is_plain:
            raise KernelError(f"{configuration.kernel} knows no fusion; compute the layer and what follows separately")
        return self.bind_source(implementation.source(problem, self.device, configuration),
                                implementation.launch(problem, self.device, configuration), packed, bias)

    def pack(self, problem: Problem, configuration: Configuration, weights: Array) -> Array:
        """The weights in the order in which the kernel of a configuration reads them; equal ones are one array.

        Raises KernelError without an implementation.
        """
        packed = llvm_implementation(kernel(configuration.kernel)).pack(problem, self.device, configuration, weights)
        return self._constants.keep(packed, given=not np.may_share_memory(packed, weights))

    def pack_all(self, layers: Sequence[tuple[Problem, Configuration, Callable[[], Array]]]) -> list[Array]:
        """Pack the weights of each layer, which a function makes; in as many threads as the device has.

        NumPy copies without Python's lock, so that threads help.
        """
        with ThreadPoolExecutor(self.device.threads) as pool:
            return list(pool.map(lambda layer: self.pack(layer[0], layer[1], layer[2]()), layers))

    def bind_source(self, source: KernelSource, launch: Launch, weights: Array | None = None,
                    bias: Array | None = None) -> BoundKernel:
        """Bind a source that belongs to no kernel family, such as a generated step. Raises BuildError."""
        module, _ = self._compiler.build(source.text, source.options)
        arguments = np.array(launch.arguments, np.int64)
        constants = (None if array is None else self._constants.keep(array) for array in (weights, bias))
        buffers = [*constants, self._workspaces.take(launch.workspace)]
        packed, added, workspace = (0 if array is None else int(array.ctypes.data) for array in buffers)
        job = make_job((0, packed, added, 0, workspace), arguments, phases_of(launch, module.address))
        return BoundKernel(self.threads, job, arguments, [module, *buffers])


class BoundKernel:
    """A kernel with its weights. A call reads memory at `x` and writes at `y`: addresses, in the problem's layout.

    A caller that runs several jobs at once writes these addresses into `job[X]`, `job[OTHER]` and `job[Y]` itself, and
    that of a fused epilogue's second operand into `arguments[-1]`.
    """

    def __init__(self, threads: ThreadPool, job: NDArray[np.int64], arguments: NDArray[np.int64],
                 owned: list[object]) -> None:
        self.job, self.address, self.arguments = job, int(job.ctypes.data), arguments
        self._run, self._owned = threads.run, owned

    def __call__(self, x: int, y: int) -> None:
        """Launch once and wait until it has finished."""
        self.job[X] = x
        self.job[Y] = y
        self._run(self.address)

    def with_fused(self, x: int, other: int, y: int) -> None:
        """Launch once with the second operand of a fused epilogue at the address `other`, which may be y's."""
        self.arguments[-1] = other
        self(x, y)
