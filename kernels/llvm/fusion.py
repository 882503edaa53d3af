"""Fusion: further work that a tuned kernel does where it reads x and stores y, and the layout of both in memory.

A fusion is no feature of the problem: kernels are predicted and tuned without it. An epilogue adds a few instructions
to each stored vector, and a pitch changes addresses alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from seqtune.errors import KernelError

from ..devices.device import Device
from ..kernel import Configuration
from ..launches.implementation import KernelSource
from ..problem import Problem
from .launch import Launch, LLVMImplementation
from .text.elements import Element
from .text.formula import Formula


@dataclass(frozen=True, slots=True)
class Fusion:
    """An epilogue, pitches (the elements from one pixel or row of a matrix to the next), and elements of y and other.

    The epilogue replaces the problem's activation; None keeps the activation. Operand 0 of the epilogue is the sum with
    the bias; operand 1, if there is one, is the same element of a tensor *other* of y's shape, whose address is the
    last launch argument. y may lie in the memory of *other*: each element is read before it is stored, and stored once.
    A pitch of None means that pixels are contiguous; an `other_pitch` of 0 means that one row serves all. An element is
    "fp32" or "bf16", and None is the problem's dtype; the elements of y and *other* agree where they share memory.
    `chained` says that the kernel runs between others, as in a network: its weights are in no cache when it begins, so
    families that can prefetch them do, and x lies in the caches of the threads that computed it, so each thread reads
    the rows that it wrote, if the rows can be divided evenly (`ir.tiling.row_runs`). Raises KernelError.
    """

    epilogue: Formula | None = None
    x_pitch: int | None = None
    y_pitch: int | None = None
    other_pitch: int | None = None
    y_element: str | None = None
    other_element: str | None = None
    chained: bool = False

    def __post_init__(self) -> None:
        if self.epilogue is not None and self.epilogue.operands > 2:
            raise KernelError("an epilogue has the sum and at most one further operand, not "
                              f"{self.epilogue.operands} operands")
        if self.other_pitch is not None and not self.has_other:
            raise KernelError("other_pitch belongs to an epilogue of two operands")
        if self.other_element is not None and not self.has_other:
            raise KernelError("other_element belongs to an epilogue of two operands")

    @property
    def is_plain(self) -> bool:
        """Whether nothing but `chained` differs from a kernel that runs alone."""
        return replace(self, chained=False) == NONE

    @property
    def has_other(self) -> bool:
        """Whether the epilogue reads a second tensor."""
        return self.epilogue is not None and self.epilogue.operands == 2

    def formula(self, problem: Problem) -> Formula:
        """The epilogue of a kernel for this problem."""
        return Formula.of_activation(str(problem["activation"])) if self.epilogue is None else self.epilogue

    def pitches(self, x: int, y: int) -> Pitches:
        """The pitches of rows of x and y with these numbers of elements. Raises KernelError if one is too small."""
        for name, pitch, floats in (("x_pitch", self.x_pitch, x), ("y_pitch", self.y_pitch, y),
                                    ("other_pitch", self.other_pitch or None, y)):
            if pitch is not None and pitch < floats:
                raise KernelError(f"{name}={pitch} is less than the {floats} floats of a pixel or row")
        other = y if self.other_pitch is None else self.other_pitch
        return Pitches(x if self.x_pitch is None else self.x_pitch, y if self.y_pitch is None else self.y_pitch, other)

    def elements(self, problem: Problem, device: Device) -> Elements:
        """The elements of x, y and the second operand. Raises KernelError for types that llvm does not compute in."""
        own = problem.dtype
        x, y, other = (Element.of(name or own, device) for name in (own, self.y_element, self.other_element))
        return Elements(x, y, other if self.has_other else y)

    def check_elements(self, problem: Problem) -> None:
        """Raise KernelError unless y and the second operand have the problem's elements."""
        own = problem.dtype
        if not {self.y_element or own, self.other_element or own} == {own}:
            raise KernelError(f"this kernel stores and adds {own} only; other elements need llvm.direct, llvm.gemm "
                              "or llvm.depthwise with layout=NHWC, or their kernels of bf16")

    def check_channels_first(self, problem: Problem) -> None:
        """Raise KernelError unless the fusion is an epilogue of the sum alone, as kernels for NCHW images need."""
        self.check_elements(problem)
        if self.has_other or self.x_pitch is not None or self.y_pitch is not None:
            raise KernelError("pitches and a second operand of the epilogue need channels last; with layout=NCHW, "
                              "only the sum can be changed")


@dataclass(frozen=True, slots=True)
class Pitches:
    """The elements from one pixel or row to the next, of x, y and the epilogue's second operand."""

    x: int
    y: int
    other: int


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of x, y and the epilogue's second operand; without that, `other` is y's."""

    x: Element
    y: Element
    other: Element


NONE = Fusion()


@runtime_checkable
class FusingImplementation(LLVMImplementation, Protocol):
    """An implementation whose source and launch take a fusion. Both raise KernelError for one that is not possible."""

    fusions: str  # the fusions that it can do, for people

    def source(self, problem: Problem, device: Device, configuration: Configuration,
               fusion: Fusion = NONE) -> KernelSource:
        """The text to build."""
        ...

    def launch(self, problem: Problem, device: Device, configuration: Configuration, fusion: Fusion = NONE) -> Launch:
        """The launch; where the epilogue has a second operand, its last argument is that tensor's address, 0 here."""
        ...
