"""The cuda backend: NVIDIA GPUs through pycuda. NVRTC compiles, and each image is loaded once per process.

A time is the GPU's own, between events around every launch within a graph, which leaves out the host. Before each timed
launch the L2 cache is overwritten, outside the timed interval: a layer of a network finds its weights in memory.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from seqtune.errors import DeviceError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.problem import Problem

from ..called_executable import CalledExecutable
from ..stored_operands import StoredOperands
from .calls import CudaCalls
from .compiler import CubinCompiler, Image
from .discovery import THIS_MACHINE, GpuDiscovery
from .driver import Gpu

L2_OVERWRITES = 2  # sizes of the L2 cache that are written before a timed launch


class CudaBackend:
    """Builds and runs kernels on one GPU. Raises DeviceError if this machine does not have it."""

    build_allowance = 60.0  # NVRTC takes 0.1 s; the largest tensor-core kernels 10 s, and more on a busy machine
    checks_itself = False
    reference_work = None  # a GPU is not slowed down unnoticed, as the CPUs of a virtual machine are

    def __init__(self, device: Device, machine: GpuDiscovery = THIS_MACHINE) -> None:
        names = [present.name for present in machine.devices()]
        if device.name not in names:
            raise DeviceError(f"no device {device.name!r:.60}; found {', '.join(names) or machine.unavailable()}")
        self.device = device
        self.compiler = CubinCompiler(device)
        self.gpu = Gpu(machine.number_of(device.name), machine.driver())
        self.operands = StoredOperands()
        self._modules: dict[KernelSource, tuple[Any, Image]] = {}
        self._flushed = L2_OVERWRITES * device.l2_bytes  # bytes
        self._scratch = self.gpu.allocate(max(1, self._flushed))

    def build(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> CalledExecutable:
        """Build an executable for the problem. Raises BuildError, or LaunchError if the device refuses the launch."""
        return CalledExecutable.of(self.calls, self.operands, problem, self.device, kernel, configuration)

    @cached_property
    def calls(self) -> CudaCalls:
        """Memory and launches of the GPU."""
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
