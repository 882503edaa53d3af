"""Implementation: what runs a kernel on a backend, and how a backend is told to run it.

An implementation turns (problem, device, configuration) into *source*, which may serve many problems, and a *launch*,
which is all that this one problem adds: integers, phases, buffer sizes. Backends build a source once and launch it for
every problem that shares it. Neither imports a compiler or a driver.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .device import Device
from .kernel import Configuration, Kernel
from .lookup import resolve
from .problem import Problem

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Source:
    """Text for the backend's compiler. Equal sources (same text and options) are built once."""

    text: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Phase:
    """One parallel step; the next begins when all of it is done.

    The buffers are up to three operands in the operation's order (x, weights and bias of a convolution; unused ones are
    null or empty), the output y and the workspace.
    llvm: `entry(i8* x, i8* weights, i8* bias, i8* y, i8* workspace, i64* arguments, i64 begin, i64 end)` is called by
    thread i of n on its share [tasks * i // n, tasks * (i + 1) // n), from which it may tell its own piece of the
    workspace. opencl: `entry(x, weights, bias, y, workspace, arguments...)`
    is enqueued over `global_size` in groups of `local_size`; the arguments are `int`.
    """

    entry: str
    tasks: int = 0
    global_size: tuple[int, ...] = ()
    local_size: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """What one problem adds to a built source."""

    arguments: tuple[int, ...]
    phases: tuple[Phase, ...]
    workspace: int = 0  # floats, uninitialised (poisoned before the check)


def includes(kernel: Kernel) -> str | None:
    """What a timing of the kernel includes and leaves out; None where there is nothing to run."""
    if kernel.implementation is None:
        return None
    implementation: Implementation = resolve(kernel.implementation)  # type: ignore[assignment]
    return implementation.includes


class Implementation(Protocol):
    """What a kernel family brings to a backend. Stateless; configurations given to it are in their space."""

    includes: str  # what a timing of it includes and leaves out, for people: "padding copy; weights packed before"

    def source(self, problem: Problem, device: Device, configuration: Configuration) -> Source:
        """The text to build. As few problem features as possible should enter it."""
        ...

    def launch(self, problem: Problem, device: Device, configuration: Configuration) -> Launch:
        """Arguments, phases and workspace of this problem."""
        ...

    def packing(self, problem: Problem, configuration: Configuration) -> Hashable:
        """Everything that `pack` reads besides the weights and the device: equal packings of one kernel are equal
        arrays, so backends keep packed weights by it."""
        return None

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
        """Constant operand (filter, or B of a matrix product) as the kernel reads it; done once, not timed.

        Its name and its shape are the operation's (`constant`, `operands`); without one, this is never called.
        """
        return weights
