"""Call: everything that one run of a kernel needs, as plain data that any backend can compile and launch.

A call is a pure function of problem, device and configuration, for our own kernels in OpenCL C, CUDA C++ and Triton as
for those that a library declares (`call_declaration`). Buffers are named after inputs and outputs of the problem; sizes
are bytes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from seqtune.errors import KernelError

from ..devices.device import Device
from ..devices.element_types import ELEMENT_TYPES
from ..kernel import Configuration
from ..problem import Problem
from .implementation import Array, Implementation, KernelSource


class Packing(Hashable, Protocol):
    """The order in which a kernel reads a constant input: the filter, or B of a matrix product.

    Equal packings of equal arrays are equal arrays, so that backends keep packed arrays by their packings.
    """

    def pack(self, array: Array) -> Array:
        """Copy the input into this order. It runs once and is not timed."""
        ...


@dataclass(frozen=True, slots=True)
class BufferArgument:
    """The address of an input or output, whose elements are of a type."""

    name: str
    dtype: str
    packing: Packing | None = None  # of an input; None: it is read as it is


@dataclass(frozen=True, slots=True)
class WorkspaceArgument:
    """The address of memory that only this kernel uses. It is poisoned before the check."""

    name: str  # unique in the call
    dtype: str
    count: int

    @property
    def size(self) -> int:
        """The bytes."""
        return self.count * ELEMENT_TYPES[self.dtype].size


@dataclass(frozen=True, slots=True)
class NullArgument:
    """A null address, where the entry takes a buffer that this problem does not have."""

    dtype: str


@dataclass(frozen=True, slots=True)
class ScalarArgument:
    """A number, as its bytes in the device's memory."""

    dtype: str
    content: bytes

    @property
    def number(self) -> Any:
        """The number as a NumPy scalar."""
        return np.frombuffer(self.content, ELEMENT_TYPES[self.dtype].stored)[0]


@dataclass(frozen=True, slots=True)
class LocalArgument:
    """Local memory of a work-group. CUDA C has no argument for it: it becomes dynamic shared memory of a block."""

    size: int


@dataclass(frozen=True, slots=True)
class TensorMapArgument:
    """A matrix in a buffer as bulk tensor copies of CUDA read it, from sm_90 (the driver's cuTensorMapEncodeTiled).

    The entry takes it as `const __grid_constant__ CUtensorMap`. Numbers of elements; the first axis is contiguous.
    """

    buffer: BufferArgument
    sizes: tuple[int, ...]
    steps: tuple[int, ...]  # between neighbours along every axis but the first; bytes are multiples of 16
    box: tuple[int, ...]  # the part that one copy moves
    swizzle: int = 0  # bytes: 0, 32, 64 or 128


Argument: TypeAlias = (BufferArgument | WorkspaceArgument | NullArgument | ScalarArgument | LocalArgument
                       | TensorMapArgument)


@dataclass(frozen=True, slots=True)
class CallStep:
    """One launch of an entry: work-items along one to three axes, in groups. The next step begins when it is done."""

    entry: str
    arguments: tuple[Argument, ...]  # in the order of the entry
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None  # None lets the driver choose groups
    shared: int = 0  # CUDA: bytes of dynamic shared memory of a block, beside local arguments
    cluster: int = 1  # CUDA, from sm_90: blocks of a cluster along the first axis

    @property
    def local_bytes(self) -> int:
        """The local memory that the arguments ask for."""
        return sum(argument.size for argument in self.arguments if isinstance(argument, LocalArgument))


@dataclass(frozen=True, slots=True)
class Call:
    """A source and the launches of its entries in one run, in order."""

    source: KernelSource
    steps: tuple[CallStep, ...]

    def buffers(self) -> dict[str, BufferArgument]:
        """The inputs and outputs that the launches read or write, by name.

        Raises KernelError if two launches read one in different types or packings.
        """
        found: dict[str, BufferArgument] = {}
        for argument in self._arguments():
            if isinstance(argument, BufferArgument) and found.setdefault(argument.name, argument) != argument:
                raise KernelError(f"{argument.name} is read both as {found[argument.name]} and as {argument}")
        return found

    def workspaces(self) -> tuple[WorkspaceArgument, ...]:
        """The workspaces of all launches; launches share them."""
        return tuple(argument for argument in self._arguments() if isinstance(argument, WorkspaceArgument))

    def _arguments(self) -> dict[Argument, None]:
        """The different arguments of all launches, most of which share theirs."""
        shared = dict.fromkeys(step.arguments for step in self.steps)
        return dict.fromkeys(argument for arguments in shared for argument in arguments)


@runtime_checkable
class CalledImplementation(Implementation, Protocol):
    """The code of a kernel that is called: a text and its arguments. Stateless; configurations are in its space."""

    def call(self, problem: Problem, device: Device, configuration: Configuration) -> Call:
        """The call of a configuration. Its source should depend on as few problem features as possible."""
        ...
