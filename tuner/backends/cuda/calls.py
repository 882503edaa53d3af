"""CudaCalls: memory and launches of an NVIDIA GPU for called kernels (`CallDriver`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.launches.call import Call, CallStep, LocalArgument
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.resource_usage import ResourceUsage

from ..called_executable import values_of
from ..compiled_phase import resource_usage
from .compiler import Image, compiled_phases, phase_of
from .driver import Gpu
from .graph_timer import GraphTimer
from .launch_limits import check_launch


class CudaCalls:
    """See `seqtune.tuner.backends.called_executable.CallDriver`. A buffer is its address."""

    def __init__(self, gpu: Gpu, device: Device, module: Callable[[KernelSource], tuple[Any, Image]],
                 flush: Callable[[], None]) -> None:
        self._gpu, self._device, self._module, self._flush = gpu, device, module, flush

    def program(self, source: KernelSource) -> tuple[Any, Image]:
        """Compile a source and load it. Raises BuildError."""
        return self._module(source)

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

    def address(self, buffer: int, offset: int, size: int) -> np.uint64:
        """The address as the entry takes it."""
        return np.uint64(buffer + offset)

    def launcher(self, program: tuple[Any, Image], entry: str, step: CallStep,
                 addresses: Mapping[str, Any]) -> Callable[[], None]:
        """A function that enqueues a step. Raises BuildError if the entry is missing, LaunchError."""
        module, image = program
        entry = image.symbol(entry)
        phase = phase_of(entry, step)
        packed = packed_arguments(step, addresses)
        grid = check_launch(phase, image.resources[entry], len(packed), self._device)
        return self._gpu.launcher(module, entry, grid, phase.local_size, phase.shared, packed)

    def finish(self) -> None:
        """Wait for all enqueued work."""
        self._gpu.synchronize()

    def timer(self, enqueue: Callable[[], None]) -> GraphTimer:
        """A timer by the GPU's events, with an L2 flush before each launch."""
        return GraphTimer(self._gpu, self._flush, enqueue)

    def resources(self, program: tuple[Any, Image], call: Call) -> ResourceUsage | None:
        """The worst needs of the call's launches. Raises BuildError if the entry is missing."""
        return resource_usage(compiled_phases(program[1], call), self._device)


def packed_arguments(step: CallStep, addresses: Mapping[str, Any]) -> bytes:
    """The bytes of the arguments, each at a multiple of its size, as in a C structure."""
    packed = b""
    for value in values_of(step, addresses):
        if isinstance(value, LocalArgument):
            continue
        content = bytes(value.tobytes())
        packed += b"\0" * (-len(packed) % len(content)) + content
    return packed
