"""The triton backend: our Triton kernels on the GPUs that PyTorch sees, NVIDIA's and AMD's.

Triton compiles a kernel at its first launch and keeps it on disk. Therefore `build` launches once, too, and
`build_seconds` includes that launch. Times are the GPU's own, between events around each launch; before each of them
the second-level cache is overwritten, because a layer of a network finds its weights in memory.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from seqtune.errors import DeviceError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem import Problem

from ..called_executable import CalledExecutable
from ..stored_operands import StoredOperands
from .calls import TritonCalls
from .discovery import devices, index_of, load, unavailable

# Sizes of the second-level cache that are written before a timed launch. Two overwrite it; five take 0.1 ms, in which
# the host puts the launches into the stream, so that the GPU never waits for it between the events.
OVERWRITES = 5


class TritonBackend:
    """Builds and runs kernels on one GPU. Raises DeviceError if this machine does not have it."""

    build_allowance = 60.0  # Triton takes 1 s, 5 s for the largest blocks, and more on a busy machine
    checks_itself = False
    reference_work = None  # a GPU is not slowed down unnoticed, as the CPUs of a virtual machine are

    def __init__(self, device: Device) -> None:
        present = [] if unavailable() is not None else devices()
        names = [other.name for other in present]
        if device.name not in names:
            raise DeviceError(f"no device {device.name!r:.60}; found {', '.join(names) or unavailable()}")
        self.device = device
        self.operands = StoredOperands()
        self.torch, _ = load()
        self.torch_device = f"cuda:{index_of(device.name)}"
        self.torch.cuda.set_device(self.torch_device)  # Triton launches on the current one
        self.scratch: Any = self.torch.empty(OVERWRITES * device.l2_bytes, dtype=self.torch.int8,
                                             device=self.torch_device)

    def build(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> CalledExecutable:
        """Build an executable for the problem and launch it once. Raises BuildError or LaunchError."""
        return CalledExecutable.of(self.calls, self.operands, problem, self.device, kernel, configuration)

    @cached_property
    def calls(self) -> TritonCalls:
        """Memory and launches of the GPU."""
        return TritonCalls(self.torch_device, self.device, self.flush)

    def flush(self) -> None:
        """Overwrite the second-level cache, in the stream."""
        self.scratch.zero_()

    def close(self) -> None:
        """Free the GPU's memory."""
        self.scratch = None
        self.torch.cuda.empty_cache()
