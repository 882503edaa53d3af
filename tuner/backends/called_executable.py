"""CalledExecutable: runs calls of our own kernels and of libraries, on any backend that offers a CallDriver.

Every buffer has a margin of canaries on both sides. Outputs without contents of their own and workspaces are poisoned
before the check: with NaN, or for whole numbers with a pattern; other outputs are reset to their contents.

The check's launch shows which contents a kernel changes. These are restored before every later launch of the whole
call, outside the clock, by a copy on the device. Nothing is copied for a kernel that changes none.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.element_types import decode, element_type
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.launches.call import (
    BufferArgument,
    Call,
    CallStep,
    NullArgument,
    ScalarArgument,
    WorkspaceArgument,
)
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.operations.table import operation
from seqtune.kernels.operations.tensor import Tensors
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage

from .backend import LaunchError, wall_clock
from .guarded_buffers import GuardedBuffers, MemoryDriver
from .stored_operands import StoredOperands


class CallTimer(Protocol):
    """Times launches."""

    def time(self, launches: int, restore: Callable[[], None] | None = None) -> float:
        """The seconds of `launches` launches, all finished. Raises LaunchError.

        `restore` enqueues work that is done before each launch, outside the clock and before caches are overwritten.
        """
        ...

    def close(self) -> None:
        """Free what the timer keeps."""
        ...


class WallTimer:
    """Times launches by the wall clock, and waits for each of them."""

    def __init__(self, enqueue: Callable[[], None], finish: Callable[[], None]) -> None:
        self._enqueue, self._finish = enqueue, finish

    def time(self, launches: int, restore: Callable[[], None] | None = None) -> float:
        """The seconds of `launches` launches, each after `restore`."""
        if restore is None:
            return wall_clock(self._run, launches)
        seconds = 0.0
        for _ in range(launches):
            restore()
            self._finish()
            seconds += wall_clock(self._run, 1)
        return seconds

    def _run(self) -> None:
        self._enqueue()
        self._finish()

    def close(self) -> None:
        """Do nothing: the timer keeps nothing."""


class Resets(NamedTuple):
    """Names of buffers that a program itself says its launches change."""

    restored: tuple[str, ...] = ()  # to the contents that they have before the first launch
    zeroed: tuple[str, ...] = ()  # before every launch, the first one too


class CallDriver(MemoryDriver, Protocol):
    """Memory and launches of a device; programs are the driver's own objects."""

    compiles_at_launch: bool  # whether the first launch compiles; a build then launches once, which may fail

    def program(self, source: KernelSource) -> Any:
        """Build a source, once per process. Raises BuildError."""
        ...

    def launcher(self, program: Any, step: CallStep, addresses: Mapping[str, Any]) -> Callable[[], None]:
        """A function that enqueues a step. `addresses` come from `address`, by the name of the argument.

        Raises BuildError if the program lacks the entry, LaunchError if arguments or sizes cannot be launched.
        """
        ...

    def timer(self, enqueue: Callable[[], None]) -> CallTimer:
        """A timer of what `enqueue` enqueues, by the clock that suits the device: the wall clock or the GPU's own."""
        ...

    def resets(self, program: Any, call: Call) -> Resets:
        """The buffers that the program says are restored or zeroed before a launch."""
        ...

    def resources(self, program: Any, call: Call) -> ResourceUsage | None:
        """The registers and memory that the call needs; None where they are not known. Raises BuildError."""
        ...


class CalledExecutable:
    """A built call with its buffers; see `seqtune.tuner.backends.backend.Executable`."""

    def __init__(self, driver: CallDriver, call: Call, tensors: Tensors, operands: StoredOperands | None = None, *,
                 guarded: bool = True, warm: bool = True) -> None:
        """Build the call and allocate its buffers. Raises BuildError, LaunchError.

        If `warm`, a driver that compiles at the first launch launches once, on zeros. `operands` holds the packed
        operands that executables share. Without `guarded`, buffers have no canaries, for devices that check the bounds
        themselves.
        """
        begin = time.perf_counter()
        self._driver, self._tensors = driver, tensors
        self._operands = StoredOperands() if operands is None else operands
        self._contents: dict[str, NDArray[Any]] = {}  # outputs and restorable inputs -> what they hold before a run
        self._changed: tuple[str, ...] | None = None  # the restorable ones that a launch changed; None: not known yet
        self._launched = False  # since the contents were written
        self._steps: list[Callable[[], None]] = []
        program = driver.program(call.source)
        declared = driver.resets(program, call)
        self._zeroed = declared.zeroed
        self._restorable = frozenset((*tensors.restorable(), *call.rewritten, *declared.restored))
        self.resources = driver.resources(program, call)
        self.timer = driver.timer(self._enqueue)
        self._arguments = call.buffers()
        for name, tensor in tensors.outputs.items():
            self._arguments.setdefault(name, BufferArgument(name, tensor.dtype))
        try:
            self.buffers = self._allocate(call, guarded)
        except LaunchError as error:
            raise LaunchError(str(error), self.resources) from None
        try:
            self._steps = [driver.launcher(program, step, self.buffers.addresses) for step in call.steps]
            if warm and driver.compiles_at_launch:
                self.run()
        except BaseException as error:
            self.close()
            if type(error) is LaunchError:
                raise LaunchError(str(error), self.resources) from None
            raise
        self.build_seconds = time.perf_counter() - begin

    @classmethod
    def of(cls, driver: CallDriver, operands: StoredOperands, problem: Problem, device: Device, kernel: Kernel,
           configuration: Configuration) -> CalledExecutable:
        """Build a configuration of a kernel. Raises BuildError, LaunchError, KernelError."""
        call = call_of(kernel, problem, device, configuration)
        return cls(driver, call, operation(problem.type).tensors(problem), operands)

    def _allocate(self, call: Call, guarded: bool) -> GuardedBuffers:
        """The buffers of all inputs that the call takes, all outputs, and the workspaces. Raises LaunchError."""
        arrays = {**self._tensors.inputs, **self._tensors.outputs}
        sizes = {name: self._operands.size(arrays[name].shape, argument)
                 for name, argument in self._arguments.items()}
        types = {name: argument.dtype for name, argument in self._arguments.items()}
        for workspace in call.workspaces():
            types[workspace.name] = workspace.dtype
            sizes[workspace.name] = workspace.size
        written = [name for name in sizes if name not in self._tensors.inputs]
        return GuardedBuffers(self._driver, sizes, written, types=types, guarded=guarded)

    def load(self, operands: Operands) -> None:
        """Copy the inputs that the call takes into its buffers, packed.

        The contents of outputs, and of inputs that launches may change, are kept for `poison` and `restored`.
        """
        self.buffers.forget()
        self.timer.close()  # it may have recorded launches that restore what was kept
        self._changed, self._launched = None, False
        self._contents = {name: array for name, array in operands.items() if name in self._arguments and (
            name in self._tensors.outputs or name in self._restorable)}
        for name, array in operands.items():
            if name in self._arguments:
                self._write(name, array)
        self._clear()

    def _write(self, name: str, array: NDArray[Any]) -> None:
        self.buffers.write(name, self._stored(name, array))

    def _stored(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        return self._operands.get(array, self._arguments[name])

    def _clear(self) -> None:
        for name in self._zeroed:
            self.buffers.clear(name)

    def poison(self) -> None:
        """Poison outputs and workspaces, reset what has contents or begins as zeros, and reset the canaries."""
        self.buffers.poison()
        for name, array in self._contents.items():
            self._write(name, array)
        self._clear()
        self._driver.finish()
        self._launched = False

    def _enqueue(self) -> None:
        for step in self._steps:
            step()

    def run(self) -> None:
        """Launch all steps and wait until they have finished. A launch after the first one restores before.

        Raises LaunchError.
        """
        if self._launched and self.restored():
            self._restore()
        self._launched = True
        self._enqueue()
        self._driver.finish()

    def time(self, launches: int) -> float:
        """Launch `launches` times; returns the seconds of all, without those of restoring before each launch."""
        if not self._launched and self._contents:
            self.run()  # shows what a launch changes
        return self.timer.time(launches, self._restore if self.restored() else None)

    def restored(self) -> tuple[str, ...]:
        """The names of the buffers that are restored before each launch, by what the first launch changed.

        Raises LaunchError.
        """
        if self._changed is None and self._launched:
            self._changed = tuple(name for name in self._contents if name in self._restorable and self._differs(name))
            for name in self._changed:
                self.buffers.keep(name, self._stored(name, self._contents[name]))
        return (*(self._changed or ()), *self._zeroed)

    def _differs(self, name: str) -> bool:
        """Whether a buffer holds other bytes than its contents."""
        contents = self._stored(name, self._contents[name])
        array = np.empty_like(contents)
        self.buffers.read(name, array)
        return not np.array_equal(array.reshape(-1).view(np.uint8), contents.reshape(-1).view(np.uint8))

    def _restore(self) -> None:
        """Enqueue the copies and fills of `restored`."""
        for name in self._changed or ():
            self.buffers.restore(name)
        self._clear()

    def outputs(self) -> dict[str, NDArray[Any]]:
        """Copies of all outputs by name, in their shapes and types; bf16 as float32."""
        return {name: self._read(name, tensor.shape) for name, tensor in self._tensors.outputs.items()}

    def _read(self, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
        dtype = self._arguments[name].dtype
        array = np.empty(shape, element_type(dtype).stored)
        self.buffers.read(name, array)
        return decode(array, dtype) if dtype == "bf16" else array

    def overrun(self) -> str | None:
        """The name of a buffer that was written outside its bounds since `poison`, or None."""
        return self.buffers.overrun()

    def close(self) -> None:
        """Free the buffers."""
        self._steps = []
        self.timer.close()
        self.buffers.close()


def group_size(step: CallStep) -> int:
    """The number of work-items of a group; 1 where the driver chooses it."""
    return math.prod(step.local_size or (1,))


def values_of(step: CallStep, addresses: Mapping[str, Any]) -> Sequence[Any]:
    """The values of a step's arguments: addresses, None for null, NumPy scalars; other arguments stay as they are."""
    return [addresses[argument.name] if isinstance(argument, BufferArgument | WorkspaceArgument)
            else argument.number if isinstance(argument, ScalarArgument)
            else None if isinstance(argument, NullArgument) else argument for argument in step.arguments]
