"""The llvm backend: kernels in LLVM IR, compiled by llvmlite and run on this process's pinned threads."""

from __future__ import annotations

import math
import time
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import DeviceError, KernelError
from seqtune.kernels.devices.device import CAPABILITIES, Device
from seqtune.kernels.devices.element_types import decode, element_type
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.launches.call import BufferArgument
from seqtune.kernels.llvm.launch import LLVMImplementation, WeightsPacking, llvm_implementation
from seqtune.kernels.operations.operation import Operands, Shape
from seqtune.kernels.operations.table import operation
from seqtune.kernels.operations.tensor import Tensor, Tensors
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage

from ..backend import LaunchError, wall_clock
from ..guarded_buffers import GuardedBuffers
from ..host_memory import HostMemory
from ..stored_operands import StoredOperands
from .compiler import CompiledModule, Compiler, capabilities, instruction_sets
from .cores import usable_cpus
from .probe import LLVMReferenceWork
from .threads import KernelJob, Threads

MOST_KEPT = 1 << 30  # bytes of operands in their stored forms: several packings of the largest weights


@lru_cache(maxsize=256)  # computing a problem's shapes takes a millisecond
def _shapes(problem: Problem) -> tuple[dict[str, Shape], Shape]:
    """The shapes of the operands by name, and the shape of the result."""
    work = operation(problem.type)
    return work.operands(problem), work.output(problem)


def operand_types(problem: Problem) -> dict[str, str]:
    """The element type in which llvm kernels read each operand, by name; packed operands are words of 32 bits."""
    shapes, _ = _shapes(problem)
    wide = ("bias", "mask", operation(problem.type).constant)
    return {name: "fp32" if name in wide else problem.dtype for name in shapes}


def plain_tensors(problem: Problem) -> Tensors:
    """The operands and the output as callers have them: before the constant operand is packed."""
    shapes, output = _shapes(problem)
    types = operand_types(problem) | {operation(problem.type).constant or "": problem.dtype}
    return Tensors({name: Tensor(shape, types[name]) for name, shape in shapes.items()},
                   {"y": Tensor(output, problem.element.result.name, None)})


def constant_argument(implementation: LLVMImplementation, problem: Problem, device: Device,
                      configuration: Configuration) -> BufferArgument | None:
    """The operand that a kernel reads packed, with its packing; None where the operation has no such operand."""
    name = operation(problem.type).constant
    return None if name is None else BufferArgument(
        name, operand_types(problem)[name], WeightsPacking.of(implementation, problem, device, configuration))


def check_here(device: Device) -> None:
    """Check that this machine can run an llvm device's kernels. Raises DeviceError."""
    if device.instruction_set not in instruction_sets() or not 1 <= device.threads <= len(usable_cpus()):
        listed = ", ".join(f"llvm:{name}" for name in instruction_sets()) or "none"
        raise DeviceError(f"this machine cannot run {device.name}; it has {listed} on up to "
                          f"{len(usable_cpus())} threads (seqtune devices lists them)")
    own = dict(capabilities(device.instruction_set))
    for fact, words in CAPABILITIES.items():
        if device.names()[fact] and not own.get(fact):
            raise DeviceError(f"this machine's CPU has no {words}, which {device.name} has on "
                              "another machine; choose a device of this machine (seqtune devices lists them)")


class LLVMBackend:
    """Builds and runs configurations of llvm kernels in this process. Use it from the thread that created it.

    With `pins_caller`, the backend pins that thread until `close`. Raises DeviceError if this machine does not have the
    device.
    """

    build_allowance = 0.0  # LLVM takes 20 ms, so the limit in the options suffices
    checks_itself = False

    def __init__(self, device: Device, pins_caller: bool = True) -> None:
        check_here(device)
        self.device = device
        self._compiler = Compiler(device.instruction_set)
        self.threads = Threads(self._compiler, device.threads, pins_caller)
        self.memory = HostMemory()
        self.operands = StoredOperands(MOST_KEPT)

    def build(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> LLVMExecutable:
        """Build an executable for the problem. Raises BuildError, or LaunchError without an implementation."""
        try:
            implementation = llvm_implementation(kernel)
        except KernelError as error:
            raise LaunchError(str(error)) from None
        source = implementation.source(problem, self.device, configuration)
        begin = time.perf_counter()
        module, fresh = self._compiler.build(source.text, source.options)
        seconds = time.perf_counter() - begin if fresh else 0.0
        return LLVMExecutable(self, module, seconds, problem, implementation, configuration)

    @cached_property
    def reference_work(self) -> LLVMReferenceWork | None:
        """Work of known time, to notice when this CPU is slow; None where the device's rate is not known."""
        known = self.device.peak_gflops > 0
        return LLVMReferenceWork(self.device, self._compiler, self.threads) if known else None

    def close(self) -> None:
        """End the threads, and free code and buffers."""
        self.threads.close()
        self._compiler.close()
        self.memory.close()
        self.operands.clear()


class LLVMExecutable:
    """A built configuration with its buffers; see `seqtune.tuner.backends.backend.Executable`."""

    def __init__(self, backend: LLVMBackend, module: CompiledModule, build_seconds: float, problem: Problem,
                 implementation: LLVMImplementation, configuration: Configuration) -> None:
        self.build_seconds = build_seconds
        self.resources: ResourceUsage | None = None
        self._backend = backend
        launch = implementation.launch(problem, backend.device, configuration)
        self._job = KernelJob(module, launch)
        constant = constant_argument(implementation, problem, backend.device, configuration)
        self._packed = {} if constant is None else {constant.name: constant}
        shapes, output = _shapes(problem)
        self._order = tuple(shapes)  # the order in which the kernel's entry takes the operands
        self._result, self._shape, self._types = problem.element.result.name, output, operand_types(problem)
        sizes = {name: _bytes(shape, self._types[name]) for name, shape in shapes.items() if name not in self._packed}
        sizes |= {"y": _bytes(output, self._result), "workspace": _bytes((launch.workspace,), "fp32")}
        self._buffers = GuardedBuffers(backend.memory, sizes, ["y", "workspace"], cleared=False,
                                       types={**self._types, "y": self._result})
        self._address: int | None = None  # of the job, when operands are loaded

    def load(self, operands: Operands) -> None:
        """Copy the operands into the buffers, the constant one packed."""
        for name in self._order:
            argument = self._packed.get(name) or BufferArgument(name, self._types[name])
            stored = self._backend.operands.get(operands[name], argument)
            if name not in self._buffers:
                self._buffers.add(name, stored.nbytes)
            self._buffers.write(name, stored)
        addresses = self._buffers.addresses
        self._job.bind([addresses[name] for name in self._order], addresses["y"], addresses["workspace"])
        self._address = self._job.address

    def poison(self) -> None:
        """Poison output and workspace, and reset the canaries around every buffer."""
        self._buffers.poison()

    def run(self) -> None:
        """Launch once and wait until it has finished. Raises LaunchError before `load` and after `close`."""
        if self._address is None:
            raise LaunchError("no operands are loaded")
        self._backend.threads.run(self._address)

    def time(self, launches: int) -> float:
        """Launch `launches` times; returns the seconds by the wall clock."""
        return wall_clock(self.run, launches)

    def outputs(self) -> dict[str, NDArray[Any]]:
        """A copy of the output y."""
        stored = np.empty(self._shape, element_type(self._result).stored)
        self._buffers.read("y", stored)
        return {"y": decode(stored, self._result)}

    def overrun(self) -> str | None:
        """The name of a buffer that was written outside its bounds since `poison`, or None."""
        return self._buffers.overrun()

    def close(self) -> None:
        """Give the buffers back to the backend."""
        self._address = None
        self._buffers.close()


def _bytes(shape: Shape, dtype: str) -> int:
    """The bytes of an array."""
    return element_type(dtype).size * math.prod(shape)
