"""The cuda backend: NVIDIA GPUs through pycuda. NVRTC compiles, and each image is loaded once per process.

A time is the GPU's own, between events around every launch within a graph, which leaves out the host. Before each timed
launch the L2 cache is overwritten, outside the timed interval: a layer of a network finds its weights in memory.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from seqtune.errors import DeviceError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.element_types import decode, encode
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.launches.implementation import (
    Array,
    Implementation,
    KernelSource,
    Launch,
    Phase,
    implementation_of,
)
from seqtune.kernels.operations.operation import MOST_OPERANDS, Operands
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem

from ..backend import LaunchError
from ..compiled_phase import resource_usage
from ..guarded_buffers import GuardedBuffers
from ..stored_operands import OperandForms, StoredOperands
from .calls import CudaCalls
from .compiler import CubinCompiler, Image
from .discovery import devices, number_of, unavailable
from .driver import Gpu
from .graph_timer import GraphTimer
from .launch_limits import check_launch

__all__ = ["CudaBackend", "CudaExecutable", "devices", "unavailable"]

L2_OVERWRITES = 2  # sizes of the L2 cache that are written before a timed launch


class CudaBackend:
    """Builds and runs kernels on one GPU. Raises DeviceError if this machine does not have it."""

    build_allowance = 60.0  # NVRTC takes 0.1 s; the largest tensor-core kernels 10 s, and more on a busy machine
    reference_work = None  # a GPU is not slowed down unnoticed, as the CPUs of a virtual machine are

    def __init__(self, device: Device) -> None:
        names = [present.name for present in devices()]
        if device.name not in names:
            raise DeviceError(f"no device {device.name!r:.60}; found {', '.join(names) or unavailable()}")
        self.device = device
        self.compiler = CubinCompiler(device)
        self.gpu = Gpu(number_of(device.name))
        self.operands = StoredOperands()
        self._modules: dict[KernelSource, tuple[Any, Image]] = {}
        self._flushed = L2_OVERWRITES * device.l2_bytes  # bytes
        self._scratch = self.gpu.allocate(max(1, self._flushed))

    def build(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> CudaExecutable:
        """Build an executable for the problem. Raises BuildError, or LaunchError if the device refuses the launch."""
        implementation = implementation_of(kernel)
        begin = time.perf_counter()
        module, image = self.module(implementation.source(problem, self.device, configuration))
        launch = implementation.launch(problem, self.device, configuration)
        executable = CudaExecutable(self, problem, configuration, implementation, module, image, launch)
        executable.build_seconds = time.perf_counter() - begin
        return executable

    @cached_property
    def calls(self) -> CudaCalls:
        """Memory and launches for called kernels."""
        return CudaCalls(self.gpu, self.device, self.module, self.flush)

    def module(self, source: KernelSource) -> tuple[Any, Image]:
        """The loaded image of a source, compiled once per process. Raises BuildError."""
        if source not in self._modules:
            image = self.compiler.compile(source)
            self._modules[source] = self.gpu.module(image.cubin), image
        return self._modules[source]

    def flush(self) -> None:
        """Overwrite the L2 cache, in the stream."""
        self.gpu.fill(self._scratch, 0, self._flushed)

    def close(self) -> None:
        """Free the images and the GPU."""
        self._modules.clear()
        self.gpu.close()


class CudaExecutable:
    """A built configuration with its buffers; see `seqtune.tuner.backends.backend.Executable`."""

    def __init__(self, backend: CudaBackend, problem: Problem, configuration: Configuration,
                 implementation: Implementation, module: Any, image: Image, launch: Launch) -> None:
        self.backend, self.problem, self.image, self.launch = backend, problem, image, launch
        self.forms = OperandForms(problem, backend.device, configuration, implementation, backend.operands)
        self.build_seconds = 0.0
        self.resources = resource_usage([image.phase(phase) for phase in launch.phases], backend.device)
        work = operation(problem.type)
        self.dtype, element = problem.dtype, problem.element.size
        self.shape = work.output(problem)
        sizes: dict[str, int] = {}  # buffer -> bytes, in the order of the entry's arguments
        for name, shape in work.operands(problem).items():
            sizes[name] = self.forms.size(name, shape)
        self._inputs = tuple(sizes)
        sizes |= {"y": element * math.prod(self.shape), "workspace": 4 * launch.workspace}
        try:
            self._buffers = GuardedBuffers(backend.calls, sizes, ["y", "workspace"])
        except LaunchError as error:
            raise LaunchError(str(error), self.resources) from None
        self._timer = GraphTimer(backend.gpu, backend.flush, self._enqueue)
        self._steps: list[Callable[[], None]] = []
        try:
            arguments = self._arguments(element)
            self._steps = [self._step(module, phase, arguments) for phase in launch.phases]
        except LaunchError as error:
            self.close()
            raise LaunchError(str(error), self.resources) from None
        except BaseException:
            self.close()
            raise

    def _step(self, module: Any, phase: Phase, arguments: Sequence[bytes]) -> Callable[[], None]:
        """The launch of a phase. Raises LaunchError."""
        gpu, entry = self.backend.gpu, phase.entry
        packed = b"".join(arguments)
        grid = check_launch(phase, self.image.resources[entry], len(packed), self.backend.device)
        if self.launch.tensor_maps:
            return gpu.launcher_with_maps(self.image.cubin, entry, grid, phase.local_size, phase.shared, arguments)
        return gpu.launcher(module, entry, grid, phase.local_size, phase.shared, packed)

    def _arguments(self, element: int) -> list[bytes]:
        """The bytes of each argument of the entry: tensor maps, addresses (null where unused), integers."""
        maps = [self.backend.gpu.tensor_map(description, self._address(description.operand), self.dtype, element)
                for description in self.launch.tensor_maps]
        unused = [0] * (MOST_OPERANDS - len(self._inputs))
        operands = [self._address(name) for name in self._inputs]
        outputs = [self._address("y"), self._address("workspace") if self.launch.workspace else 0]
        return [*maps, *(struct.pack("<Q", address) for address in (*operands, *unused, *outputs)),
                *(struct.pack("<i", value) for value in self.launch.arguments)]

    def _address(self, name: str) -> int:
        return int(self._buffers.addresses[name])

    def load(self, operands: Operands) -> None:
        """Copy the operands into the buffers, the constant one packed."""
        for name, array in operands.items():
            self._buffers.write(name, self.forms.get(name, array))

    def poison(self) -> None:
        """Fill output and workspace with NaN, and reset the canaries around every buffer."""
        self._buffers.poison()

    def _enqueue(self) -> None:
        for step in self._steps:
            step()

    def run(self) -> None:
        """Launch all phases and wait until they have finished. Raises LaunchError, or DeviceLost."""
        self._enqueue()
        self.backend.gpu.synchronize()

    def time(self, launches: int, flush: bool = True) -> float:
        """Launch so many times; returns the seconds of all by the GPU's events, after an L2 flush each.

        Without `flush`, operands that fit stay in the L2 cache.
        """
        return self._timer.time(launches, flush)

    def output(self) -> Array:
        """A copy of the output, in the problem's shape and layout."""
        y = encode(np.zeros(self.shape, np.float32), self.dtype)
        self._buffers.read("y", y)
        return decode(y, self.dtype)

    def overrun(self) -> str | None:
        """The name of a buffer that was written outside its bounds since `poison`, or None."""
        return self._buffers.overrun()

    def close(self) -> None:
        """Free the buffers and graphs."""
        self._timer.close()
        self._steps = []
        self._buffers.close()
