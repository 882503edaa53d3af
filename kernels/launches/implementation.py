"""Implementation: the code of a kernel for a backend, and the description of its launch.

An implementation turns (problem, device, configuration) into a *source*, which many problems may share, and a *launch*,
which holds the rest of this problem: integers, phases, buffer sizes. A backend builds a source once and launches it for
every problem that shares it. Implementations import no compiler and no driver.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import KernelError

from ..devices.device import Device
from ..kernel import Configuration, Kernel
from ..lookup import resolve
from ..problem import Problem

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class KernelSource:
    """Text for the backend's compiler. Equal sources (same text and options) are built once."""

    text: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Phase:
    """One parallel step of a launch. The next phase begins when all tasks of this one are done.

    The buffers are up to three operands in the operation's order (x, weights and bias of a convolution; unused ones are
    null or empty), the output y and the workspace.
    llvm: thread i of n calls `entry(i8* x, i8* weights, i8* bias, i8* y, i8* workspace, i64* arguments, i64 begin,
    i64 end)` for its share [tasks * i // n, tasks * (i + 1) // n), which also determines its piece of the workspace.
    Where the tasks are several `runs` of equal length, one after the other, each thread calls the entry once for every
    run, with its share of that run. The workspace of such an entry is not divided among the threads.
    The last arguments are the addresses of operands beyond the third; a launch has 0 there. Bias, packed weights and
    masks hold 4-byte words; the others and y hold elements of the problem's `dtype`.
    opencl: `entry(x, weights, bias, y, workspace, arguments...)` is enqueued over `global_size` in groups of
    `local_size`; the arguments are `int`.
    cuda: the same, with `global_size / local_size` blocks of `local_size` threads; x, weights, bias and y hold elements
    of the problem's `dtype`, the workspace floats. The launch's tensor maps come before x.
    """

    entry: str
    tasks: int = 0
    global_size: tuple[int, ...] = ()
    local_size: tuple[int, ...] = ()
    shared: int = 0  # cuda: bytes of dynamic shared memory of a block
    cluster: int = 1  # cuda: blocks of a cluster along the first axis, from sm_90
    runs: int = 1  # llvm: a divisor of tasks


@dataclass(frozen=True, slots=True)
class TensorMap:
    """cuda, from sm_90: a matrix in one buffer, for bulk tensor copies (the driver's cuTensorMapEncodeTiled).

    The entry takes it as `const __grid_constant__ CUtensorMap`. Numbers of elements; the first axis is contiguous.
    """

    operand: str  # "x" | "weights" | "y"
    sizes: tuple[int, ...]
    steps: tuple[int, ...]  # between neighbours along every axis but the first; bytes are multiples of 16
    box: tuple[int, ...]  # the part that one copy moves
    swizzle: int = 0  # bytes: 0, 32, 64 or 128


@dataclass(frozen=True, slots=True)
class Launch:
    """The part of a run that depends on the problem: arguments, phases and workspace for a built source."""

    arguments: tuple[int, ...]
    phases: tuple[Phase, ...]
    workspace: int = 0  # floats; uninitialised (the check fills them with NaN first)
    tensor_maps: tuple[TensorMap, ...] = ()


def includes(kernel: Kernel) -> str | None:
    """The work that a timing of the kernel includes and leaves out, for people; None if it has no implementation."""
    return None if kernel.implementation is None else implementation_of(kernel).includes


def implementation_of(kernel: Kernel) -> Implementation:
    """The code of a kernel, imported if the kernel only names it. Raises KernelError if it has none.

    An implementation that makes its own executables (`seqtune.tuner.backends.backend.ExecutableFactory`) needs only
    `includes` of the protocol's members.
    """
    code = kernel.implementation
    if code is None:
        raise KernelError(f"{kernel.name} has no implementation to run")
    return resolve(code) if isinstance(code, str) else code  # type: ignore[return-value]


class Implementation(Protocol):
    """The code of a kernel family for its backends. Stateless; every configuration passed to it is in its space."""

    includes: str  # the work that a timing includes and leaves out, for people: "padding copy; weights packed before"

    def source(self, problem: Problem, device: Device, configuration: Configuration) -> KernelSource:
        """The text to build. It should depend on as few problem features as possible."""
        ...

    def launch(self, problem: Problem, device: Device, configuration: Configuration) -> Launch:
        """The arguments, phases and workspace for this problem."""
        ...

    def packing(self, problem: Problem, configuration: Configuration) -> Hashable:
        """Everything that `pack` reads except the weights and the device.

        Equal values for the same kernel mean equal packed arrays, so backends use it as the key of packed weights.
        """
        return None

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
        """Copy the constant operand (filter, or B of a matrix product) into the order in which the kernel reads it.

        It runs once and is not timed. The operation declares the operand's name (`constant`) and shape (`operands`);
        if it declares none, this is never called.
        """
        return weights
