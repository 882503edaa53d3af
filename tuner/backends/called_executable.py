"""CalledExecutable: runs a declared call on any backend that offers a CallDriver, checked as our own kernels are.

Every buffer has a margin of canaries on both sides. Outputs without contents of their own and workspaces are poisoned
before the check: with NaN, or for whole numbers with a pattern; other outputs are reset to their contents.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.element_types import element_type
from seqtune.kernels.launches.call import BufferArgument, Call, CallStep, ScalarArgument, WorkspaceArgument
from seqtune.kernels.launches.implementation import Array, KernelSource
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.operations.tensor import Tensor, Tensors
from seqtune.kernels.resource_usage import ResourceUsage

from .guarded_buffers import MARGIN, GuardedBuffers, MemoryDriver


class CallTimer(Protocol):
    """Times launches."""

    def time(self, launches: int) -> float:
        """The seconds of so many launches, all finished. Raises LaunchError."""
        ...

    def close(self) -> None:
        """Free what the timer keeps."""
        ...


class WallTimer:
    """Times launches by the wall clock, and waits for each of them."""

    def __init__(self, enqueue: Callable[[], None], finish: Callable[[], None]) -> None:
        self._enqueue, self._finish = enqueue, finish

    def time(self, launches: int) -> float:
        """The seconds of so many launches."""
        begin = time.perf_counter()
        for _ in range(launches):
            self._enqueue()
            self._finish()
        return time.perf_counter() - begin

    def close(self) -> None:
        """Nothing is kept."""


class CallDriver(MemoryDriver, Protocol):
    """Memory and launches of a device; programs are the driver's own objects."""

    def program(self, source: KernelSource) -> Any:
        """Build a source, once per process. Raises BuildError."""
        ...

    def launcher(self, program: Any, entry: str, step: CallStep, addresses: Mapping[str, Any]) -> Callable[[], None]:
        """A function that enqueues a step. `addresses` come from `address`, by the name of the argument.

        Raises LaunchError if the entry is missing or the device refuses its sizes.
        """
        ...

    def timer(self, enqueue: Callable[[], None]) -> CallTimer:
        """A timer of what `enqueue` enqueues, by the clock that suits the device."""
        ...

    def resources(self, program: Any, call: Call) -> ResourceUsage | None:
        """The registers and memory that the call needs; None where the device does not tell."""
        ...


@runtime_checkable
class CallingBackend(Protocol):
    """A backend that runs declared calls in the language of its name."""

    @property
    def calls(self) -> CallDriver:
        """The driver of this device."""
        ...


class CalledExecutable:
    """A built call with its buffers; see `seqtune.tuner.backends.backend.Executable` and `SeveralOutputs`."""

    def __init__(self, driver: CallDriver, call: Call, tensors: Tensors, *, margin: int = MARGIN,
                 warm: bool = True) -> None:
        """Build the call, allocate its buffers and, if `warm`, launch it once on zeros. Raises BuildError, LaunchError.

        `margin` is bytes of canary on each side of a buffer; 0 is for devices that check the bounds themselves.
        """
        begin = time.perf_counter()
        self._driver, self._tensors, self._timer = driver, tensors, driver.timer(self._enqueue)
        self._starts: dict[str, NDArray[Any]] = {}  # output -> its contents before a run
        self._steps: list[Callable[[], None]] = []
        program = driver.program(call.source)
        self.resources = driver.resources(program, call)
        self._types, sizes = _types_and_sizes(call, tensors)
        self._buffers = GuardedBuffers(
            driver, sizes, [name for name in sizes if name not in tensors.inputs], margin=margin,
            bytes_of={name: element_type(dtype).poison for name, dtype in self._types.items()})
        try:
            self._steps = [driver.launcher(program, call.entry, step, self._buffers.addresses) for step in call.steps]
            if warm:
                self.run()  # some drivers compile at the first launch
        except BaseException:
            self.close()
            raise
        self.build_seconds = time.perf_counter() - begin

    def load(self, operands: Operands) -> None:
        """Copy the inputs into the buffers, and keep the contents of outputs for `poison`."""
        self._starts = {name: array for name, array in operands.items() if name in self._tensors.outputs}
        for name, array in operands.items():
            if name in self._buffers:
                self._write(name, array)

    def _write(self, name: str, array: NDArray[Any]) -> None:
        self._buffers.write(name, np.ascontiguousarray(array, element_type(self._types[name]).stored))

    def poison(self) -> None:
        """Poison outputs and workspaces, reset outputs that have contents, and reset the canaries."""
        self._buffers.poison()
        for name, array in self._starts.items():
            self._write(name, array)
        self._driver.finish()

    def _enqueue(self) -> None:
        for step in self._steps:
            step()

    def run(self) -> None:
        """Launch all steps and wait until they have finished. Raises LaunchError."""
        self._enqueue()
        self._driver.finish()

    def time(self, launches: int) -> float:
        """Launch so many times; returns the seconds of all. Outputs with contents are not reset in between."""
        return self._timer.time(launches)

    def outputs(self) -> dict[str, NDArray[Any]]:
        """Copies of all outputs by name, in their shapes and types."""
        return {name: self._read(name, tensor) for name, tensor in self._tensors.outputs.items()}

    def _read(self, name: str, tensor: Tensor) -> NDArray[Any]:
        array = np.empty(tensor.shape, element_type(tensor.dtype).stored)
        self._buffers.read(name, array)
        return array

    def output(self) -> Array:
        """A copy of the first output as float32."""
        name, tensor = next(iter(self._tensors.outputs.items()))
        return self._read(name, tensor).astype(np.float32)

    def overrun(self) -> str | None:
        """The name of a buffer that was written outside its bounds since `poison`, or None."""
        return self._buffers.overrun()

    def close(self) -> None:
        """Free the buffers."""
        self._steps = []
        self._timer.close()
        self._buffers.close()


def group_size(step: CallStep) -> int:
    """The work-items of a group; 1 where the driver chooses."""
    return math.prod(step.local_size or (1,))


def values_of(step: CallStep, addresses: Mapping[str, Any]) -> Sequence[Any]:
    """The arguments of a step: addresses, NumPy scalars, and LocalArgument as it is."""
    return [addresses[argument.name] if isinstance(argument, BufferArgument | WorkspaceArgument)
            else argument.number if isinstance(argument, ScalarArgument) else argument
            for argument in step.arguments]


def _types_and_sizes(call: Call, tensors: Tensors) -> tuple[dict[str, str], dict[str, int]]:
    """The number type and the bytes of every buffer that a call takes, and of every output."""
    arrays = {**tensors.inputs, **tensors.outputs}
    names = dict.fromkeys((*call.buffers(), *tensors.outputs))
    types = {name: arrays[name].dtype for name in names}
    sizes = {name: arrays[name].size * element_type(arrays[name].dtype).size for name in names}
    for workspace in call.workspaces():
        types[workspace.name] = workspace.dtype
        sizes[workspace.name] = max(workspace.size, sizes.get(workspace.name, 0))
    return types, sizes
