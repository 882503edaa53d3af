"""TritonCalls: memory and launches of a PyTorch device for Triton kernels (`CallDriver`).

The launcher and PyTorch's device are all that depends on a GPU: in Triton's interpreter the same code runs on CPU
tensors, which is how it is tested without one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import FormatError, one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.element_types import element_type
from seqtune.kernels.kernel import Setting
from seqtune.kernels.launches.call import Argument, BufferArgument, Call, CallStep, NullArgument, WorkspaceArgument
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.resource_usage import ResourceUsage
from seqtune.kernels.triton.text import constants_of

from ..backend import DeviceLost, LaunchError
from ..called_executable import CallTimer, Resets, WallTimer
from ..compilers import resource_usage
from ..guarded_buffers import MARGIN
from .compiler import FUSION, OPTIONS, TritonBinary, compile_call, function_of, integer_of, tuner_of, untuned


class TritonCalls:
    """See `seqtune.tuner.backends.called_executable.CallDriver`. A buffer is a tensor of bytes.

    `flush` overwrites the caches of the GPU. Without `device` and `flush`, kernels run in the interpreter, which
    compiles nothing, and the wall clock measures.
    """

    compiles_at_launch = True

    def __init__(self, torch_device: str, device: Device | None = None, flush: Callable[[], None] | None = None,
                 torch: Any = None, function_of: Callable[[str, str], Any] = function_of) -> None:
        """`torch` is the module of PyTorch by default, `function_of` finds the Triton function of a module's entry."""
        self._torch: Any = torch or importlib.import_module("torch")
        self._function_of = function_of
        self._torch_device, self._device, self._flush = torch_device, device, flush

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Turn an error into LaunchError, or into DeviceLost where the GPU does not answer after it.

        Errors are Triton's OutOfResources, and PyTorch's and the driver's RuntimeError.
        """
        try:
            yield
        except Exception as error:
            message = one_line(error)
            if self._flush is not None:
                try:  # an illegal address and its like are sticky: every later call of this process fails
                    self._torch.cuda.synchronize(self._torch_device)
                except RuntimeError as later:
                    raise DeviceLost(one_line(later)) from None
            raise LaunchError(message) from None

    def program(self, source: KernelSource) -> tuple[str, dict[str, Setting]]:
        """The module of a source and its constants; Triton compiles at the first launch."""
        return constants_of(source)

    def margins(self, size: int, number: int) -> tuple[int, int]:
        """The bytes of canary before and behind a buffer."""
        return MARGIN, MARGIN

    def allocate(self, size: int) -> Any:
        """Allocate a buffer."""
        with self._checked():
            return self._torch.empty(size, dtype=self._torch.uint8, device=self._torch_device)

    def free(self, buffer: Any) -> None:
        """Do nothing: PyTorch frees a tensor that nobody refers to."""

    def write(self, buffer: Any, offset: int, array: NDArray[Any]) -> None:
        """Copy an array into a buffer."""
        content = array.reshape(-1).view(np.uint8)
        if not content.flags.writeable:
            content = np.array(content)  # PyTorch warns about arrays that are read-only
        with self._checked():
            buffer[offset:offset + content.size].copy_(self._torch.from_numpy(content))

    def read(self, buffer: Any, offset: int, array: NDArray[Any]) -> None:
        """Fill an array from a buffer when earlier work is done."""
        with self._checked():
            content = buffer[offset:offset + array.nbytes].cpu().numpy()
        array.reshape(-1).view(np.uint8)[:] = content

    def fill(self, buffer: Any, offset: int, byte: int, size: int) -> None:
        """Fill a part of a buffer with one byte."""
        with self._checked():
            buffer[offset:offset + size].fill_(byte)

    def copy(self, source: Any, buffer: Any, offset: int, size: int) -> None:
        """Copy the first bytes of another buffer into a part of a buffer."""
        with self._checked():
            buffer[offset:offset + size].copy_(source[:size])

    def address(self, buffer: Any, offset: int, size: int) -> Any:
        """The part of the tensor."""
        return buffer[offset:offset + size]

    def launcher(self, program: tuple[str, dict[str, Setting]], step: CallStep,
                 addresses: Mapping[str, Any]) -> Callable[[], None]:
        """A function that enqueues a step."""
        (module, constants), local = program, step.local_size or (1,)
        function = untuned(self._function_of(module, step.entry))
        named = FUSION | {name: value for name, value in constants.items()
                          if name in OPTIONS or name in function.arg_names}
        grid = tuple(size // threads for size, threads in zip(step.global_size, local, strict=True))
        values = [self._value(argument, addresses) for argument in step.arguments]

        def launch() -> None:
            with self._checked():
                function[grid](*values, **named)

        return launch

    def _value(self, argument: Argument, addresses: Mapping[str, Any]) -> Any:
        """An argument as a Triton kernel takes it: a tensor of its element type, or a number."""
        if isinstance(argument, NullArgument):  # a placeholder: Triton compiles for a pointer of this type
            return self._torch.zeros(1, dtype=self._type(argument.dtype), device=self._torch_device)
        if isinstance(argument, BufferArgument | WorkspaceArgument):
            return addresses[argument.name].view(self._type(argument.dtype))
        return integer_of(argument)

    def _type(self, dtype: str) -> Any:
        """PyTorch's type of elements."""
        return getattr(self._torch, element_type(dtype).torch)

    def finish(self) -> None:
        """Wait for the GPU. Raises LaunchError where a launch failed, or DeviceLost."""
        if self._flush is not None:
            with self._checked():
                self._torch.cuda.synchronize(self._torch_device)

    def timer(self, enqueue: Callable[[], None]) -> CallTimer:
        """A timer by the GPU's events that overwrites its caches before each launch; without a GPU, the wall clock."""
        if self._flush is None:
            return WallTimer(enqueue, self.finish)
        return EventTimer(self._torch, self._torch_device, self._flush, enqueue, self.finish)

    def resets(self, program: tuple[str, dict[str, Setting]], call: Call) -> Resets:
        """The buffers of triton.autotune's `restore_value` and `reset_to_zero`, where functions have this decorator."""
        resets = [resets_of(self._function_of(program[0], step.entry), step) for step in call.steps]
        return Resets(*(tuple(dict.fromkeys(chain.from_iterable(names))) for names in zip(*resets, strict=True)))

    def resources(self, program: tuple[str, dict[str, Setting]], call: Call) -> ResourceUsage | None:
        """The worst needs of the call's kernels, compiled as for a launch. Raises BuildError."""
        return None if self._device is None else resources_of(compile_call(call, self._device), self._device)


class EventTimer:
    """Times launches by events in the stream around each of them; the caches are overwritten before."""

    def __init__(self, torch: Any, torch_device: str, flush: Callable[[], None], enqueue: Callable[[], None],
                 finish: Callable[[], None]) -> None:
        self._torch, self._torch_device = torch, torch_device
        self._flush, self._enqueue, self._finish = flush, enqueue, finish

    def time(self, launches: int, restore: Callable[[], None] | None = None) -> float:
        """The seconds of `launches` launches, each after `restore` and a flush that are not counted."""
        events = [[self._torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(launches)]
        with self._torch.cuda.device(self._torch_device):
            for begin, end in events:
                if restore is not None:
                    restore()
                self._flush()
                begin.record()
                self._enqueue()
                end.record()
        self._finish()
        return 1e-3 * float(sum(begin.elapsed_time(end) for begin, end in events))

    def close(self) -> None:
        """Do nothing: the timer keeps nothing."""


def resets_of(function: Any, step: CallStep) -> Resets:
    """The buffers of a step that the tuner of its function restores or resets to zero, by the names of parameters."""
    tuner = tuner_of(function)
    if tuner is None:
        return Resets()
    taken = dict(zip(function.arg_names, step.arguments, strict=False))
    return Resets(*(tuple(argument.name for name in names if isinstance(
        argument := taken.get(name), BufferArgument | WorkspaceArgument))
        for names in (tuner.restore_value, tuner.reset_to_zero)))


def resources_of(binaries: Sequence[TritonBinary], device: Device) -> ResourceUsage | None:
    """The worst needs of the kernels of a call; None where an image does not state them in a known form.

    Kernels without known needs run all the same.
    """
    try:
        return resource_usage([binary.needs() for binary in binaries], device)
    except FormatError:
        return None
