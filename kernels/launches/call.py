"""Call: everything that one run of a called kernel needs, as plain data that any backend can compile and launch.

A call is a pure function of problem, device and configuration (`call_declaration`). Buffers are named after inputs and
outputs of the problem; sizes are bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..devices.element_types import ELEMENT_TYPES
from .implementation import KernelSource


@dataclass(frozen=True, slots=True)
class BufferArgument:
    """The address of an input or output."""

    name: str


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


Argument: TypeAlias = BufferArgument | WorkspaceArgument | ScalarArgument | LocalArgument


@dataclass(frozen=True, slots=True)
class CallStep:
    """One launch of the entry: work-items along one to three axes, in groups; None lets the driver choose groups."""

    arguments: tuple[Argument, ...]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None

    @property
    def local_bytes(self) -> int:
        """The local memory that the arguments ask for."""
        return sum(argument.size for argument in self.arguments if isinstance(argument, LocalArgument))


@dataclass(frozen=True, slots=True)
class Call:
    """A source, its entry, and the launches of one run in order."""

    source: KernelSource
    entry: str
    steps: tuple[CallStep, ...]

    def buffers(self) -> tuple[str, ...]:
        """The inputs and outputs that the launches read or write."""
        return tuple(dict.fromkeys(argument.name for step in self.steps for argument in step.arguments
                                   if isinstance(argument, BufferArgument)))

    def workspaces(self) -> tuple[WorkspaceArgument, ...]:
        """The workspaces of all launches; launches share them."""
        return tuple(dict.fromkeys(argument for step in self.steps for argument in step.arguments
                                   if isinstance(argument, WorkspaceArgument)))
