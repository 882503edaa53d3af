"""Launch: the integers of an llvm kernel, and the phases whose tasks the device's threads share.

The entry of a phase is `entry(i8* x, i8* weights, i8* bias, i8* y, i8* workspace, i64* arguments, i64 begin, i64 end)`:
up to three operands in the operation's order (null where unused), the output and the workspace. Thread i of n calls it
for its share [tasks * i // n, tasks * (i + 1) // n), which also determines its piece of the workspace. The last
arguments are the addresses of operands beyond the third; a launch has 0 there. Bias, packed weights and masks hold
4-byte words, the other operands elements of the problem's `dtype`, and y those of its result (`ElementType.result`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, runtime_checkable

from seqtune.errors import KernelError

from ..devices.device import Device
from ..kernel import Configuration, Kernel
from ..launches.implementation import Array, Implementation, KernelSource, implementation_of
from ..problem import Problem


@dataclass(frozen=True, slots=True)
class Phase:
    """One parallel step of a launch. The next phase begins when all tasks of this one are done.

    Where the tasks are several `runs` of equal length, one after the other, each thread calls the entry once for every
    run, with its share of that run. The workspace of such an entry is not divided among the threads.
    """

    entry: str
    tasks: int
    runs: int = 1  # a divisor of tasks


@dataclass(frozen=True, slots=True)
class Launch:
    """The part of a run that depends on the problem: arguments, phases and workspace for a built source."""

    arguments: tuple[int, ...]
    phases: tuple[Phase, ...]
    workspace: int = 0  # floats; uninitialised (the check fills them with NaN first)


@runtime_checkable
class LLVMImplementation(Implementation, Protocol):
    """The code of an llvm kernel. Stateless; every configuration passed to it is in its space."""

    def source(self, problem: Problem, device: Device, configuration: Configuration) -> KernelSource:
        """The text to build. It should depend on as few problem features as possible."""
        ...

    def launch(self, problem: Problem, device: Device, configuration: Configuration) -> Launch:
        """The arguments, phases and workspace for this problem."""
        ...

    def packing(self, problem: Problem, configuration: Configuration) -> Hashable:
        """Everything that `pack` reads except the weights and the device; None where nothing is packed.

        Equal values for the same kernel mean equal packed arrays, so backends use it as the key of packed weights.
        """
        return None

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
        """Copy the constant operand (filter, or B of a matrix product) into the order in which the kernel reads it.

        It runs once and is not timed. The operation declares the operand's name (`constant`) and shape (`operands`);
        if it declares none, `pack` is never called.
        """
        return weights


@runtime_checkable
class ComputedPacking(Protocol):
    """The code of a kernel whose `pack` computes, and does not only copy elements in another order."""

    def pack_text(self, problem: Problem, device: Device, configuration: Configuration, name: str) -> str | None:
        """The C99 function `static void NAME(const TYPE *weights, void *packed)`; None for an order of elements."""
        ...


def llvm_implementation(kernel: Kernel) -> LLVMImplementation:
    """The code of an llvm kernel. Raises KernelError if it has none."""
    code: object = implementation_of(kernel)
    if not isinstance(code, LLVMImplementation):
        raise KernelError(f"{kernel.name} has no code that llvm can run")
    return code


@dataclass(frozen=True, slots=True)
class WeightsPacking:
    """The order in which the kernel of a configuration reads its constant operand: a `Packing`."""

    kernel: str
    kind: Hashable  # what the order depends on beside the kernel; see `LLVMImplementation.packing`
    run: Callable[[Array], Array] = field(compare=False)

    @classmethod
    def of(cls, implementation: LLVMImplementation, problem: Problem, device: Device,
           configuration: Configuration) -> WeightsPacking:
        """The packing of a configuration."""
        return cls(configuration.kernel, implementation.packing(problem, configuration),
                   partial(implementation.pack, problem, device, configuration))

    def pack(self, array: Array) -> Array:
        """Copy the weights into this order."""
        return self.run(array)
