"""CudaCalls: memory and checked launches of an NVIDIA GPU (`CallDriver`)."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.occupancy import occupancy
from seqtune.kernels.launches.call import (
    Argument,
    BufferArgument,
    Call,
    CallStep,
    LocalArgument,
    ScalarArgument,
    TensorMapArgument,
    WorkspaceArgument,
)
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.resource_usage import ResourceUsage

from ..backend import LaunchError
from ..called_executable import Resets
from ..compilers import resource_usage
from ..guarded_buffers import MARGIN
from .compiler import Image, compiled_steps
from .driver import Gpu, TimedGraph
from .libcuda import MAP_ALIGNMENT
from .resources import Resources

LARGEST_GRID = (2**31 - 1, 65535, 65535)  # blocks along x, y and z (CUDA C++ Programming Guide, compute capabilities)


class CudaCalls:
    """See `seqtune.tuner.backends.called_executable.CallDriver`. A buffer is its address."""

    compiles_at_launch = False

    def __init__(self, gpu: Gpu, device: Device, module: Callable[[KernelSource], tuple[Any, Image]],
                 flush: Callable[[], None]) -> None:
        self._gpu, self._device, self._module, self._flush = gpu, device, module, flush

    def program(self, source: KernelSource) -> tuple[Any, Image]:
        """Compile a source and load it. Raises BuildError."""
        return self._module(source)

    def margins(self, size: int, number: int) -> tuple[int, int]:
        """The bytes of canary before and behind a buffer."""
        return MARGIN, MARGIN

    def allocate(self, size: int) -> int:
        """Allocate a buffer."""
        return self._gpu.allocate(size)

    def free(self, buffer: int) -> None:
        """Free a buffer."""
        self._gpu.free(buffer)

    def write(self, buffer: int, offset: int, array: NDArray[Any]) -> None:
        """Copy an array into a buffer."""
        if array.size:
            self._gpu.write(buffer + offset, array)

    def read(self, buffer: int, offset: int, array: NDArray[Any]) -> None:
        """Fill an array from a buffer."""
        self._gpu.read(array, buffer + offset)

    def fill(self, buffer: int, offset: int, byte: int, size: int) -> None:
        """Fill a part of a buffer with one byte."""
        self._gpu.fill(buffer + offset, byte, size)

    def copy(self, source: int, buffer: int, offset: int, size: int) -> None:
        """Copy the first bytes of another buffer into a part of a buffer."""
        self._gpu.copy(source, buffer + offset, size)

    def address(self, buffer: int, offset: int, size: int) -> int:
        """The address of a part."""
        return buffer + offset

    def launcher(self, program: tuple[Any, Image], step: CallStep,
                 addresses: Mapping[str, Any]) -> Callable[[], None]:
        """A function that enqueues a step. Raises BuildError if the entry is missing, LaunchError."""
        module, image = program
        assert step.local_size is not None
        entry, shared = image.symbol(step.entry), step.shared + step.local_bytes
        arguments = [self._bytes(argument, addresses) for argument in step.arguments
                     if not isinstance(argument, LocalArgument)]
        packed = packed_arguments(arguments)
        grid = check_launch(step, image.resources[entry], len(packed), self._device)
        if any(isinstance(argument, TensorMapArgument) for argument in step.arguments):
            return self._gpu.launcher_with_maps(image.cubin, entry, grid, step.local_size, shared, arguments)
        return self._gpu.launcher(module, entry, grid, step.local_size, shared, packed)

    def _bytes(self, argument: Argument, addresses: Mapping[str, int]) -> bytes:
        """An argument as the entry takes it. Raises LaunchError."""
        if isinstance(argument, TensorMapArgument):
            return self._gpu.tensor_map(argument, addresses[argument.buffer.name])
        if isinstance(argument, ScalarArgument):
            return argument.content
        if isinstance(argument, BufferArgument | WorkspaceArgument):
            return struct.pack("<Q", addresses[argument.name])
        return bytes(8)  # null

    def finish(self) -> None:
        """Wait for all enqueued work."""
        self._gpu.synchronize()

    def timer(self, enqueue: Callable[[], None]) -> GraphTimer:
        """A timer by the GPU's events, with an L2 flush before each launch."""
        return GraphTimer(self._gpu, self._flush, enqueue)

    def resets(self, program: tuple[Any, Image], call: Call) -> Resets:
        """None: CUDA C++ says nothing of them."""
        return Resets()

    def resources(self, program: tuple[Any, Image], call: Call) -> ResourceUsage | None:
        """The worst needs of the call's launches. Raises BuildError if an entry is missing."""
        return resource_usage(compiled_steps(program[1], call), self._device)


def packed_arguments(arguments: Sequence[bytes]) -> bytes:
    """The arguments as in a C structure: each at a multiple of its size, a tensor map at one of its alignment."""
    packed = b""
    for content in arguments:
        packed += b"\0" * (-len(packed) % min(len(content), MAP_ALIGNMENT)) + content
    return packed


def check_launch(step: CallStep, needs: Resources, argument_bytes: int, device: Device) -> tuple[int, ...]:
    """Check a step against its compiled entry and the device; return the blocks of its grid.

    Raises LaunchError for a launch that a GPU would refuse, or worse.
    """
    entry, sizes, block = step.entry, step.global_size, step.local_size
    if block is None or len(sizes) != len(block) or not 1 <= len(block) <= 3:
        raise LaunchError(f"{entry}: {sizes} threads in blocks of {block}")
    threads, shared = math.prod(block), needs.shared + step.shared + step.local_bytes
    if any(wide < 1 or size % wide for size, wide in zip(sizes, block, strict=True)):
        raise LaunchError(f"{entry}: {sizes} threads cannot be divided into blocks of {block}")
    grid = tuple(size // wide for size, wide in zip(sizes, block, strict=True))
    if any(not 1 <= blocks <= most for blocks, most in zip(grid, LARGEST_GRID, strict=False)):
        raise LaunchError(f"{entry}: a grid of {grid} blocks exceeds {LARGEST_GRID[:len(grid)]}")
    most_threads = min(device.max_work_group, needs.most_threads or device.max_work_group)
    if threads > most_threads:
        raise LaunchError(f"{entry}: a block of {threads} threads exceeds {most_threads}")
    if shared > device.local_memory:
        raise LaunchError(f"{entry}: {shared} bytes of shared memory exceed the device's {device.local_memory}")
    if not (fit := occupancy(device, threads, needs.registers, shared)).blocks:
        raise LaunchError(f"{entry}: {threads} threads of {needs.registers} registers do not fit ({fit.limit})")
    if step.cluster != needs.cluster:
        raise LaunchError(f"{entry}: launched in clusters of {step.cluster} and built for {needs.cluster}")
    if grid[0] % step.cluster:
        raise LaunchError(f"{entry}: {grid[0]} blocks cannot be divided into clusters of {step.cluster}")
    if argument_bytes != needs.parameters:
        raise LaunchError(f"{entry} takes {needs.parameters} bytes of arguments, and {argument_bytes} are passed")
    return grid


GRAPH_LAUNCHES = 10  # in one graph: launching it costs the host about as much as one kernel


class GraphTimer:
    """Times `enqueue`, which puts launches into the GPU's stream. Close it to free its graphs."""

    def __init__(self, gpu: Gpu, flush: Callable[[], None], enqueue: Callable[[], None]) -> None:
        self._gpu, self._flush, self._enqueue = gpu, flush, enqueue
        self._graphs: dict[tuple[int, Callable[[], None] | None], TimedGraph] = {}

    def time(self, launches: int, restore: Callable[[], None] | None = None) -> float:
        """The seconds of `launches` runs of `enqueue`, each after `restore` and an L2 flush that are not counted."""
        repeats = GRAPH_LAUNCHES if launches >= GRAPH_LAUNCHES else 1
        if (repeats, restore) not in self._graphs:
            before = self._flush if restore is None else partial(_in_order, restore, self._flush)
            self._graphs[repeats, restore] = self._gpu.timed_graph(before, self._enqueue, repeats)
        graph = self._graphs[repeats, restore]
        runs = -(-launches // repeats)
        seconds = sum(self._gpu.run_graph(graph) for _ in range(runs))
        return seconds * launches / (runs * repeats)

    def close(self) -> None:
        """Free the graphs."""
        for graph in self._graphs.values():
            self._gpu.free_graph(graph)
        self._graphs = {}


def _in_order(*works: Callable[[], None]) -> None:
    for work in works:
        work()
