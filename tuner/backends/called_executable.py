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

from seqtune.kernels.calls.call import BufferArgument, Call, CallStep, ScalarArgument, WorkspaceArgument
from seqtune.kernels.calls.number_types import is_float, numpy_type
from seqtune.kernels.implementation import Array, KernelSource
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.operations.tensor import Tensor, Tensors
from seqtune.kernels.resource_usage import ResourceUsage

MARGIN = 4096  # bytes of canary on each side of every buffer; a multiple of any device's alignment
NAN_BYTE, PATTERN_BYTE = 0xFF, 0xA5  # sixteen, 32 or 64 bits of ones are a NaN; the pattern is an unlikely number


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


class CallDriver(Protocol):
    """Memory and launches of a device. Offsets and sizes are bytes; buffers and programs are the driver's own objects.

    A failed call raises LaunchError, or DeviceLost where the process can no longer use the device.
    """

    def program(self, source: KernelSource) -> Any:
        """Build a source, once per process. Raises BuildError."""
        ...

    def allocate(self, size: int) -> Any:
        """Allocate a buffer that begins at a multiple of any type's size."""
        ...

    def free(self, buffer: Any) -> None:
        """Free a buffer."""
        ...

    def write(self, buffer: Any, offset: int, array: NDArray[Any]) -> None:
        """Copy a contiguous array into a buffer."""
        ...

    def read(self, buffer: Any, offset: int, array: NDArray[Any]) -> None:
        """Fill an array from a buffer when all earlier work is done."""
        ...

    def fill(self, buffer: Any, offset: int, byte: int, size: int) -> None:
        """Fill a part of a buffer with one byte."""
        ...

    def launcher(self, program: Any, entry: str, step: CallStep, addresses: Mapping[str, Any]) -> Callable[[], None]:
        """A function that enqueues a step. `addresses` come from `address`, by the name of the argument.

        Raises LaunchError if the entry is missing or the device refuses its sizes.
        """
        ...

    def address(self, buffer: Any, offset: int, size: int) -> Any:
        """The part of a buffer that an argument points to."""
        ...

    def finish(self) -> None:
        """Wait for all enqueued work."""
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
        self._margin = margin
        self._driver, self._tensors, self._timer = driver, tensors, driver.timer(self._enqueue)
        self._starts: dict[str, NDArray[Any]] = {}  # output -> its contents before a run
        self._types: dict[str, str] = {}  # buffer -> number type
        self._sizes: dict[str, int] = {}  # buffer -> bytes
        self._whole: dict[str, Any] = {}  # buffer -> the driver's buffer, margins included
        self._steps: list[Callable[[], None]] = []
        program = driver.program(call.source)
        self.resources = driver.resources(program, call)
        try:
            self._allocate(call)
            addresses = {name: driver.address(buffer, margin, self._sizes[name])
                         for name, buffer in self._whole.items()}
            self._steps = [driver.launcher(program, call.entry, step, addresses) for step in call.steps]
            if warm:
                self.run()  # some drivers compile at the first launch
        except BaseException:
            self.close()
            raise
        self.build_seconds = time.perf_counter() - begin

    def _allocate(self, call: Call) -> None:
        arrays = {**self._tensors.inputs, **self._tensors.outputs}
        for name in dict.fromkeys((*call.buffers(), *self._tensors.outputs)):
            self._types[name] = arrays[name].dtype
            self._sizes[name] = arrays[name].size * numpy_type(arrays[name].dtype).itemsize
        for workspace in call.workspaces():
            self._types[workspace.name] = workspace.dtype
            self._sizes[workspace.name] = max(workspace.size, self._sizes.get(workspace.name, 0))
        for name, size in self._sizes.items():
            self._whole[name] = self._driver.allocate(max(1, size + 2 * self._margin))
            self._driver.fill(self._whole[name], 0, 0, size + 2 * self._margin)

    def load(self, operands: Operands) -> None:
        """Copy the inputs into the buffers, and keep the contents of outputs for `poison`."""
        self._starts = {name: array for name, array in operands.items() if name in self._tensors.outputs}
        for name, array in operands.items():
            if name in self._whole:
                self._write(name, array)

    def _write(self, name: str, array: NDArray[Any]) -> None:
        self._driver.write(self._whole[name], self._margin, np.ascontiguousarray(array, numpy_type(self._types[name])))

    def poison(self) -> None:
        """Poison outputs and workspaces, reset outputs that have contents, and reset the canaries."""
        for name, size in self._sizes.items():
            byte, buffer = _byte(self._types[name]), self._whole[name]
            if name in self._tensors.inputs:
                self._driver.fill(buffer, 0, byte, self._margin)
                self._driver.fill(buffer, self._margin + size, byte, self._margin)
            else:
                self._driver.fill(buffer, 0, byte, size + 2 * self._margin)
                if name in self._starts:
                    self._write(name, self._starts[name])
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
        array = np.empty(tensor.shape, numpy_type(tensor.dtype))
        self._driver.read(self._whole[name], self._margin, array)
        return array

    def output(self) -> Array:
        """A copy of the first output as float32."""
        name, tensor = next(iter(self._tensors.outputs.items()))
        return self._read(name, tensor).astype(np.float32)

    def overrun(self) -> str | None:
        """The name of a buffer that was written outside its bounds since `poison`, or None."""
        margin = np.empty(self._margin, np.uint8)
        for name, size in self._sizes.items():
            for begin in (0, self._margin + size) if self._margin else ():
                self._driver.read(self._whole[name], begin, margin)
                if (margin != _byte(self._types[name])).any():
                    return name
        return None

    def close(self) -> None:
        """Free the buffers."""
        self._steps = []
        self._timer.close()
        for buffer in self._whole.values():
            self._driver.free(buffer)
        self._whole = {}


def group_size(step: CallStep) -> int:
    """The work-items of a group; 1 where the driver chooses."""
    return math.prod(step.local_size or (1,))


def values_of(step: CallStep, addresses: Mapping[str, Any]) -> Sequence[Any]:
    """The arguments of a step: addresses, NumPy scalars, and LocalArgument as it is."""
    return [addresses[argument.name] if isinstance(argument, BufferArgument | WorkspaceArgument)
            else argument.number if isinstance(argument, ScalarArgument) else argument
            for argument in step.arguments]


def _byte(dtype: str) -> int:
    return NAN_BYTE if is_float(dtype) else PATTERN_BYTE
