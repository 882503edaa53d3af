"""The llvm backend: kernels in LLVM IR, compiled by llvmlite and run on this process's pinned threads.

One CPU counts as several devices: each of its instruction sets, on any number of threads up to one per physical core.
Those on all cores and on one core are listed.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Hashable
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import DeviceError
from seqtune.kernels.devices.device import CAPABILITIES, Device
from seqtune.kernels.devices.element_types import decode, element_type, encode
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.launches.implementation import Array, implementation_of
from seqtune.kernels.llvm.launch import LLVMImplementation
from seqtune.kernels.operations.operation import MOST_OPERANDS, Operands, Shape
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage

from ..backend import LaunchError, wall_clock
from .compiler import INSTRUCTION_SETS, CompiledModule, Compiler, capabilities, instruction_sets, toolchain
from .facts import caches, cpu_model, cpu_name, measured_rates
from .reference_work import LLVMReferenceWork
from .threads import Threads, make_job, phases_of, usable_cpus

MARGIN = 4096  # bytes of canary on each side of every buffer
CANARY = 0xA5
SPARE_BYTES = 1 << 28  # freed buffers kept for the next executable, because their pages are mapped already
PACKINGS = 16  # packed copies kept of one weights array


def unavailable() -> str | None:
    """The reason why this machine has no llvm device, or None."""
    return None if instruction_sets() else f"LLVM finds no vector instructions on this CPU ({platform.machine()})"


@lru_cache(maxsize=64)
def _device(name: str, threads: int) -> Device:
    """The device of an instruction set and a number of threads."""
    _, _, bits, registers = INSTRUCTION_SETS[name]
    return Device(
        name=f"llvm:{name}:{threads}", backend="llvm", architecture=cpu_name(), instruction_set=name,
        model=cpu_model(), threads=threads, compute_units=threads, vector_bits=bits,
        vector_registers=registers, l1_bytes=caches()[1], l2_bytes=caches()[2], l3_bytes=caches()[3],
        toolchain=toolchain(), extra=capabilities(name),
        **measured_rates(name, threads))  # type: ignore[arg-type]


def _listed() -> list[tuple[str, int]]:
    """Instruction set and threads of the listed devices, in the order of `devices`."""
    return [(name, threads) for name in instruction_sets() for threads in dict.fromkeys((len(usable_cpus()), 1))]


def devices() -> list[Device]:
    """The listed devices of this CPU, on all cores and on one core; best first, which is the widest vectors on all."""
    return [_device(name, threads) for name, threads in _listed()]


def device_of(name: str) -> Device | None:
    """The device of a name, without measuring the rates of others; None for other names.

    A name has any number of threads up to one per core (`llvm:avx512:3`), is a family (`llvm:avx512`, `llvm`: the first
    one listed) or a number in the list (`llvm:0`). Raises DeviceError for another number of threads.
    """
    _, _, rest = name.partition(":")
    if rest.isdecimal() and len(rest) < 6 and int(rest) < len(_listed()):
        return _device(*_listed()[int(rest)])
    if ":" not in rest:
        first = next((listed for listed in _listed() if rest in ("", listed[0])), None)
        return None if first is None else _device(*first)
    instruction_set, _, threads = rest.partition(":")
    if instruction_set not in instruction_sets() or not (threads.isascii() and threads.isdecimal()):
        return None
    cores = len(usable_cpus())
    if len(threads) > len(str(cores)) or not 1 <= int(threads) <= cores:
        raise DeviceError(f"no device {name!r:.60}; this machine has {cores} cores for 1 to {cores} threads")
    return _device(instruction_set, int(threads))


@lru_cache(maxsize=256)  # computing a problem's shapes takes a millisecond
def _shapes(problem: Problem) -> tuple[dict[str, Shape], Shape]:
    """The shapes of the operands by name, and the shape of the result."""
    work = operation(problem.type)
    return work.operands(problem), work.output(problem)


class _Buffer:
    """Elements of a type between two margins of canaries, aligned to cache lines."""

    def __init__(self, raw: NDArray[np.uint8], shape: tuple[int, ...], dtype: str) -> None:
        size = element_type(dtype).size * int(np.prod(shape))
        begin = MARGIN + (-raw.ctypes.data) % 64
        self.raw, self.dtype = raw, dtype
        self.array: NDArray[Any] = raw[begin:begin + size].view(
            element_type(dtype).stored).reshape(shape)
        self._margins = (raw[begin - MARGIN:begin], raw[begin + size:begin + size + MARGIN])
        self.address = int(self.array.ctypes.data)

    def poison(self) -> None:
        self.array.reshape(-1).view(np.uint8).fill(element_type(self.dtype).poison)

    def guard(self) -> None:
        for margin in self._margins:
            margin.fill(CANARY)

    def intact(self) -> bool:
        return all(bool((margin == CANARY).all()) for margin in self._margins)


class LLVMBackend:
    """Builds and runs configurations of llvm kernels in this process. Use it from the thread that created it.

    The backend pins that thread until `close`. Raises DeviceError if this machine does not have the device.
    """

    build_allowance = 0.0  # LLVM takes 20 ms, so the limit in the options suffices
    checks_itself = False

    def __init__(self, device: Device) -> None:
        if device.instruction_set not in instruction_sets() or not 1 <= device.threads <= len(usable_cpus()):
            listed = ", ".join(f"llvm:{name}" for name in instruction_sets()) or "none"
            raise DeviceError(f"this machine cannot run {device.name}; it has {listed} on up to "
                              f"{len(usable_cpus())} threads (seqtune devices lists them)")
        own = dict(capabilities(device.instruction_set))
        for fact, words in CAPABILITIES.items():
            if device.names()[fact] and not own.get(fact):
                raise DeviceError(f"this machine's CPU has no {words}, which {device.name} has on "
                                  "another machine; choose a device of this machine (seqtune devices lists them)")
        self.device = device
        self._compiler = Compiler(device.instruction_set)
        self.threads = Threads(self._compiler, device.threads)
        self._spare: list[NDArray[np.uint8]] = []
        self._packed: dict[tuple[int, str, Hashable], tuple[Array, Array]] = {}

    def build(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> LLVMExecutable:
        """Build an executable for the problem. Raises BuildError, or LaunchError without an implementation."""
        if kernel.implementation is None:
            raise LaunchError(f"{kernel.name} has no implementation to run")
        implementation: object = implementation_of(kernel)
        if not isinstance(implementation, LLVMImplementation):
            raise LaunchError(f"{kernel.name} has no code that llvm can run")
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

    def take(self, shape: tuple[int, ...], dtype: str = "fp32") -> _Buffer:
        """A buffer of this shape and element type: a spare one where one fits, else a new one."""
        size = element_type(dtype).size * int(np.prod(shape)) + 2 * MARGIN + 64
        fits = [index for index, raw in enumerate(self._spare) if size <= raw.nbytes <= 2 * size]
        if fits:
            return _Buffer(self._spare.pop(min(fits, key=lambda index: self._spare[index].nbytes)), shape, dtype)
        return _Buffer(np.empty(size, np.uint8), shape, dtype)

    def give(self, buffer: _Buffer) -> None:
        """Take a buffer back as a spare one."""
        self._spare.append(buffer.raw)
        while sum(raw.nbytes for raw in self._spare) > SPARE_BYTES:
            self._spare.pop(0)

    def pack(self, implementation: LLVMImplementation, problem: Problem, configuration: Configuration,
             weights: Array) -> Array:
        """The packed weights. A read-only array is packed once per kernel and kind of packing."""
        if weights.flags.writeable:
            return implementation.pack(problem, self.device, configuration, weights)
        key = (id(weights), configuration.kernel, implementation.packing(problem, configuration))
        entry = self._packed.get(key)
        if entry is None:
            if len(self._packed) >= PACKINGS or any(other is not weights for other, _ in self._packed.values()):
                self._packed.clear()
            # The array is kept as well, so that no other array can get its id.
            entry = weights, implementation.pack(problem, self.device, configuration, weights)
            self._packed[key] = entry
        return entry[1]

    def close(self) -> None:
        """End the threads, and free code and buffers."""
        self.threads.close()
        self._compiler.close()
        self._spare.clear()
        self._packed.clear()


class LLVMExecutable:
    """A built configuration with its buffers; see `seqtune.tuner.backends.backend.Executable`."""

    def __init__(self, backend: LLVMBackend, module: CompiledModule, build_seconds: float, problem: Problem,
                 implementation: LLVMImplementation, configuration: Configuration) -> None:
        self.build_seconds = build_seconds
        self.resources: ResourceUsage | None = None
        self._backend, self._module, self._problem = backend, module, problem
        self._implementation, self._configuration = implementation, configuration
        launch = implementation.launch(problem, backend.device, configuration)
        self._phases = phases_of(launch, module.address)
        self._constant = operation(problem.type).constant
        shapes, output = _shapes(problem)
        self._order = tuple(shapes)  # the order in which the kernel's entry takes the operands
        dtype = problem.dtype
        self._inputs = {name: backend.take(shape, "fp32" if name in ("bias", "mask") else dtype)
                        for name, shape in shapes.items() if name != self._constant}
        self._y = backend.take(output, problem.element.result.name)
        self._workspace = backend.take((launch.workspace,))
        self._launch_arguments = np.array(launch.arguments, np.int64)
        self._job: NDArray[np.int64] | None = None
        self._closed = False

    def load(self, operands: Operands) -> None:
        """Copy the operands into the buffers, the constant one packed."""
        for name in self._order:
            array = operands[name]
            if name == self._constant:
                array = self._backend.pack(self._implementation, self._problem, self._configuration, array)
                if name not in self._inputs:
                    self._inputs[name] = self._backend.take(array.shape)
            np.copyto(self._inputs[name].array, encode(array, self._inputs[name].dtype))
        addresses = [self._inputs[name].address for name in self._order]
        unused = [0] * (MOST_OPERANDS - len(addresses))
        inputs, further = addresses[:MOST_OPERANDS], addresses[MOST_OPERANDS:]
        self._arguments = self._launch_arguments.copy()
        self._arguments[len(self._arguments) - len(further):] = further
        self._job = make_job((*inputs, *unused, self._y.address, self._workspace.address), self._arguments,
                             self._phases)
        self._address = int(self._job.ctypes.data)

    def _buffers(self) -> dict[str, _Buffer]:
        return {**self._inputs, "y": self._y, "workspace": self._workspace}

    def poison(self) -> None:
        """Fill output and workspace with NaN, and reset the canaries around every buffer."""
        self._y.poison()
        self._workspace.poison()
        for buffer in self._buffers().values():
            buffer.guard()

    def run(self) -> None:
        """Launch once and wait until it has finished. Raises LaunchError before `load` and after `close`."""
        if self._job is None:
            raise LaunchError("no operands are loaded")
        self._backend.threads.run(self._address)

    def time(self, launches: int) -> float:
        """Launch so many times; returns the seconds by the wall clock."""
        return wall_clock(self.run, launches)

    def outputs(self) -> dict[str, NDArray[Any]]:
        """A copy of the output y."""
        return {"y": decode(self._y.array, self._y.dtype).copy()}

    def overrun(self) -> str | None:
        """The name of a buffer that was written outside its bounds since `poison`, or None."""
        return next((name for name, buffer in self._buffers().items() if not buffer.intact()), None)

    def close(self) -> None:
        """Give the buffers back to the backend."""
        if not self._closed:
            for buffer in self._buffers().values():
                self._backend.give(buffer)
        self._job, self._closed = None, True
