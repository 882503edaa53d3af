"""Call: everything that one run of a kernel needs, as plain data that any backend can compile and launch.

A call is a pure function of problem, device and configuration. Our own kernels in OpenCL C, CUDA C++ and Triton make it
themselves; `call_declaration` makes it for those that a library declares. A buffer has the name of an input or output
of the problem. Sizes of memory are bytes.
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
    """The address of an input or output, and the element type and order in which the entry takes it."""

    name: str
    dtype: str
    packing: Packing | None = None  # the order of a constant input; None: the array as it is


@dataclass(frozen=True, slots=True)
class WorkspaceArgument:
    """The address of memory that only this kernel uses. It is poisoned before the check.

    Launches that name the same workspace share it; it is as large as the largest of them asks for.
    """

    name: str
    dtype: str
    count: int  # elements

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.count * ELEMENT_TYPES[self.dtype].size


@dataclass(frozen=True, slots=True)
class NullArgument:
    """A null address in place of a buffer that the entry takes and this problem does not have."""

    dtype: str


@dataclass(frozen=True, slots=True)
class ScalarArgument:
    """A number."""

    dtype: str
    content: bytes  # the number in the device's memory

    @property
    def number(self) -> Any:
        """The number as a NumPy scalar."""
        return np.frombuffer(self.content, ELEMENT_TYPES[self.dtype].stored)[0]


@dataclass(frozen=True, slots=True)
class LocalArgument:
    """Local memory of a work-group. For CUDA it is no argument, but dynamic shared memory of a block."""

    size: int  # bytes


@dataclass(frozen=True, slots=True)
class TensorMapArgument:
    """A matrix in a buffer, for bulk tensor copies of CUDA from sm_90 on (the driver's cuTensorMapEncodeTiled).

    The entry takes it as `const __grid_constant__ CUtensorMap`. The first axis is contiguous; sizes, steps and box are
    in elements.
    """

    buffer: BufferArgument
    sizes: tuple[int, ...]
    steps: tuple[int, ...]  # between neighbours along every axis but the first; in bytes, multiples of 16
    box: tuple[int, ...]  # the part that one copy moves
    swizzle: int = 0  # bytes: 0, 32, 64 or 128


Argument: TypeAlias = (BufferArgument | WorkspaceArgument | NullArgument | ScalarArgument | LocalArgument
                       | TensorMapArgument)


@dataclass(frozen=True, slots=True)
class CallStep:
    """One launch of an entry over work-items along one to three axes. The next step begins after its end."""

    entry: str
    arguments: tuple[Argument, ...]  # in the order of the entry
    global_size: tuple[int, ...]  # work-items
    local_size: tuple[int, ...] | None  # work-items of a group; None: the driver chooses
    shared: int = 0  # CUDA: bytes of dynamic shared memory of a block, beside those of local arguments
    cluster: int = 1  # CUDA from sm_90 on: blocks of a cluster, along the first axis

    @property
    def local_bytes(self) -> int:
        """The bytes of local memory that the arguments ask for."""
        return sum(argument.size for argument in self.arguments if isinstance(argument, LocalArgument))


@dataclass(frozen=True, slots=True)
class Call:
    """A source and the launches of its entries in one run, in order."""

    source: KernelSource
    steps: tuple[CallStep, ...]
    rewritten: tuple[str, ...] = ()  # inputs that launches may change

    def buffers(self) -> dict[str, BufferArgument]:
        """The inputs and outputs that the launches take, by name.

        Raises KernelError if two launches take one in different types or packings.
        """
        buffers: dict[str, BufferArgument] = {}
        for argument in self._arguments():
            if isinstance(argument, BufferArgument) and buffers.setdefault(argument.name, argument) != argument:
                raise KernelError(f"two launches take {argument.name} in different forms: as "
                                  f"{buffers[argument.name]} and as {argument}")
        return buffers

    def workspaces(self) -> tuple[WorkspaceArgument, ...]:
        """The workspaces of all launches; of several arguments with one name the largest."""
        largest: dict[str, WorkspaceArgument] = {}
        for argument in self._arguments():
            if isinstance(argument, WorkspaceArgument):
                largest[argument.name] = max(largest.get(argument.name, argument), argument, key=lambda each: each.size)
        return tuple(largest.values())

    def _arguments(self) -> dict[Argument, None]:
        """The different arguments of all launches; most launches have equal ones."""
        lists = dict.fromkeys(step.arguments for step in self.steps)
        return dict.fromkeys(argument for arguments in lists for argument in arguments)


@runtime_checkable
class CalledImplementation(Implementation, Protocol):
    """The code of a kernel that is called. Stateless; every configuration passed to it is in the kernel's space."""

    def call(self, problem: Problem, device: Device, configuration: Configuration) -> Call:
        """The call of a configuration. Its source should depend on as few problem features as possible.

        Raises KernelError.
        """
        ...
