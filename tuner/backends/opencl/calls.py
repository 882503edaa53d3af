"""OpenCLCalls: memory and launches of an OpenCL device (`CallDriver`).

On a CPU, a buffer is memory of this process (CL_MEM_USE_HOST_PTR) with gaps without access on both sides. PoCL and
Intel's runtime use it in place; where a runtime copies it instead, there are no gaps, and a SeqtuneWarning says so.

Work-groups beyond the device's limits, which PoCL does not enforce, and beyond the kernel's are refused. A driver that
has compiled a kernel knows how many work-items its registers allow: GPUs of phones run far fewer of a large kernel than
the device's limit says, and may not refuse more. There the fact `max_work_group` is what such a kernel allows, so that
proposals run; a small kernel of somebody else may have larger groups, as far as the driver says.

PoCL 5.0 for CPUs reports 0 bytes for the local memory that a kernel declares itself, and ends the process at a launch
beyond the limit. That can only be a kernel of somebody else: ours stay within the limit by their constraints. The
worker dies then, and the record says `crash`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import SeqtuneWarning
from seqtune.kernels.devices.device import Device
from seqtune.kernels.launches.call import Call, CallStep, LocalArgument
from seqtune.kernels.launches.implementation import KernelSource

from ..backend import BuildError, LaunchError
from ..called_executable import Resets, WallTimer, group_size, values_of
from ..guarded_buffers import MARGIN
from ..host_memory import LINE, PAGE, HostMemory, ReservedMemory
from .programs import error_line


class OpenCLCalls:
    """See `seqtune.tuner.backends.called_executable.CallDriver`."""

    compiles_at_launch = True  # PoCL, for each shape of a work-group

    def __init__(self, cl: Any, context: Any, queue: Any, limits: GroupLimits,
                 build: Callable[[KernelSource], Any], *, on_cpu: bool = False) -> None:
        self._cl, self._context, self._queue, self._limits, self._build = cl, context, queue, limits, build
        self._on_cpu = on_cpu
        self._memory: dict[int, ReservedMemory] = {}  # handle of a buffer -> what it uses in place

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Turn an error of the driver into LaunchError, or into BuildError where it compiles at a launch and fails."""
        try:
            yield
        except self._cl.Error as error:
            raise self._failure(error) from None

    def _failure(self, error: Any) -> Exception:
        does_not_build = error.code == self._cl.status_code.BUILD_PROGRAM_FAILURE
        return (BuildError if does_not_build else LaunchError)(error_line(error))

    def program(self, source: KernelSource) -> Any:
        """Build a source. Raises BuildError."""
        return self._build(source)

    @cached_property
    def _host(self) -> HostMemory | None:
        """The memory that buffers use in place; None for a device with memory of its own, or a runtime that copies."""
        if not self._on_cpu:
            return None
        host = HostMemory(max(LINE, self._queue.device.mem_base_addr_align // 8))
        if self._uses_in_place(host):
            return host
        warnings.warn(f"{self._queue.device.name}: this OpenCL runtime copies the memory of buffers, so that kernels "
                      f"that read or write farther than {MARGIN} bytes outside a buffer may count as correct",
                      SeqtuneWarning, stacklevel=2)
        return None

    def _uses_in_place(self, host: HostMemory) -> bool:
        """Whether a buffer shows what is written to its memory, and the memory what is written to the buffer."""
        memory, seen = host.allocate(PAGE), np.empty(PAGE, np.uint8)
        memory.bytes.fill(1)
        buffer = self._buffer_on(memory)
        memory.bytes.fill(2)
        self.read(buffer, 0, seen)
        self.fill(buffer, 0, 3, PAGE)
        self.finish()
        in_place = bool((seen == 2).all() and (memory.bytes == 3).all())
        buffer.release()
        return in_place

    def _buffer_on(self, memory: ReservedMemory) -> Any:
        flags = self._cl.mem_flags
        with self._checked():
            return self._cl.Buffer(self._context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=memory.bytes)

    def margins(self, size: int, number: int) -> tuple[int, int]:
        """The bytes of canary before and behind a buffer."""
        return (MARGIN, MARGIN) if self._host is None else self._host.margins(size, number)

    def allocate(self, size: int) -> Any:
        """Allocate a buffer; memory beyond the device's largest allocation is refused."""
        if self._host is None:
            with self._checked():
                return self._cl.Buffer(self._context, self._cl.mem_flags.READ_WRITE, size)
        memory = self._host.allocate(size)
        buffer = self._buffer_on(memory)
        self._memory[buffer.int_ptr] = memory
        return buffer

    def free(self, buffer: Any) -> None:
        """Free a buffer."""
        memory = self._memory.pop(buffer.int_ptr, None)
        buffer.release()
        if memory is not None and self._host is not None:
            self._host.free(memory)

    def write(self, buffer: Any, offset: int, array: NDArray[Any]) -> None:
        """Copy an array into a buffer."""
        with self._checked():
            self._cl.enqueue_copy(self._queue, buffer, array, dst_offset=offset)

    def read(self, buffer: Any, offset: int, array: NDArray[Any]) -> None:
        """Fill an array from a buffer."""
        with self._checked():
            self._cl.enqueue_copy(self._queue, array, buffer, src_offset=offset)

    def fill(self, buffer: Any, offset: int, byte: int, size: int) -> None:
        """Fill a part of a buffer with one byte."""
        if size:
            with self._checked():
                self._cl.enqueue_fill_buffer(self._queue, buffer, np.uint8(byte), offset, size)

    def copy(self, source: Any, buffer: Any, offset: int, size: int) -> None:
        """Copy the first bytes of another buffer into a part of a buffer."""
        if size:
            with self._checked():
                self._cl.enqueue_copy(self._queue, buffer, source, dst_offset=offset, byte_count=size)

    def address(self, buffer: Any, offset: int, size: int) -> Any:
        """A sub-buffer, or the buffer itself at its beginning."""
        if not offset:
            return buffer
        with self._checked():
            return buffer.get_sub_region(offset, max(1, size))

    def launcher(self, program: Any, step: CallStep, addresses: Mapping[str, Any]) -> Callable[[], None]:
        """A function that enqueues a step. Raises BuildError if the program lacks the entry, LaunchError."""
        cl, queue, entry, sizes, local = self._cl, self._queue, step.entry, step.global_size, step.local_size
        try:
            kernel = cl.Kernel(program, entry)
        except cl.Error:
            names = ", ".join(str(kernel.function_name) for kernel in program.all_kernels())[:100]
            raise BuildError(f"the source has no kernel {entry!r:.60}; it has {names or 'none'}") from None
        if kernel.num_args != len(step.arguments):
            raise LaunchError(f"{entry} takes {kernel.num_args} arguments, and {len(step.arguments)} are declared")
        if local is not None and any(size % wide for size, wide in zip(sizes, local, strict=True)):
            raise LaunchError(f"{entry}: {sizes} work-items cannot be divided into groups of {local} "
                              "(round_up rounds a size up)")
        self._limits.check(kernel, group_size(step), step.local_bytes)
        with self._checked():
            try:
                kernel.set_args(*(cl.LocalMemory(value.size) if isinstance(value, LocalArgument) else value
                                  for value in values_of(step, addresses)))
            except cl.LogicError as error:
                raise LaunchError(f"{entry}: an argument has another type than the source declares "
                                  f"({error_line(error)})") from None

        enqueue, failed = cl.enqueue_nd_range_kernel, cl.Error

        def launch() -> None:  # timed on CPUs, as `finish` is; a context manager would take a microsecond
            try:
                enqueue(queue, kernel, sizes, local)
            except failed as error:
                raise self._failure(error) from None

        return launch

    def finish(self) -> None:
        """Wait for all enqueued work."""
        try:
            self._queue.finish()
        except self._cl.Error as error:
            raise self._failure(error) from None

    def timer(self, enqueue: Callable[[], None]) -> WallTimer:
        """A timer by the wall clock, which waits for each launch."""
        return WallTimer(enqueue, self.finish)

    def resets(self, program: Any, call: Call) -> Resets:
        """None: OpenCL C says nothing of them."""
        return Resets()

    def resources(self, program: Any, call: Call) -> None:
        """None: OpenCL does not tell what a kernel needs."""
        return


class GroupLimits:
    """The limits of a device; `handle` is the driver's object for it."""

    def __init__(self, cl: Any, handle: Any, device: Device) -> None:
        info = cl.kernel_work_group_info
        self._local_memory, self._work_items = info.LOCAL_MEM_SIZE, info.WORK_GROUP_SIZE
        self._handle, self._device = handle, device
        self._largest = max(device.max_work_group, handle.max_work_group_size)

    def check(self, kernel: Any, work_items: int, local_bytes: int = 0) -> None:
        """Check a work-group that has local memory of so many bytes beside the kernel's own. Raises LaunchError."""
        if work_items > self._largest:
            raise LaunchError(f"a work-group of {work_items} work-items exceeds the device's limit of {self._largest}")
        most = kernel.get_work_group_info(self._work_items, self._handle)
        if work_items > most:
            raise LaunchError(f"a work-group of {work_items} work-items exceeds the {most} that this kernel allows")
        used = kernel.get_work_group_info(self._local_memory, self._handle) + local_bytes
        if used > self._device.local_memory:
            raise LaunchError(f"{used} bytes of local memory exceed the device's {self._device.local_memory}")
