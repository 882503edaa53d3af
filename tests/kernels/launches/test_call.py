"""Calls: the order of the entry's arguments, one form of every buffer, and the reason where a kernel has no call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from seqtune.errors import KernelError
from seqtune.kernels.launches.call import (
    BufferArgument,
    Call,
    CallStep,
    LocalArgument,
    NullArgument,
    ScalarArgument,
    WorkspaceArgument,
)
from seqtune.kernels.launches.entry_arguments import entry_arguments
from seqtune.kernels.launches.implementation import Array, KernelSource
from seqtune.kernels.problem import Problem


@dataclass(frozen=True)
class Same:
    """A packing that changes nothing."""

    def pack(self, array: Array) -> Array:
        return array


def product(**features: Any) -> Problem:
    return Problem.make("gemm", m=4, n=5, k=6, **features)


def test_the_entrys_arguments_are_operands_output_workspace_and_integers() -> None:
    *buffers, first, second = entry_arguments(product(bias="yes", dtype="bf16"), [7, -1], Same(), workspace=3)
    assert buffers == [BufferArgument("x", "bf16"), BufferArgument("weights", "bf16", Same()),
                       BufferArgument("bias", "bf16"), BufferArgument("y", "bf16"),
                       WorkspaceArgument("workspace", "fp32", 3)]
    assert [argument.number for argument in (first, second) if isinstance(argument, ScalarArgument)] == [7, -1]


def test_a_number_of_more_than_32_bits_is_refused() -> None:
    with pytest.raises(KernelError, match="32-bit integers, and 2147483648 does not fit"):
        entry_arguments(product(), [1 << 31])


def test_what_a_problem_does_not_have_is_null() -> None:
    assert entry_arguments(product(dtype="fp16"), [])[2:] == (
        NullArgument("fp16"), BufferArgument("y", "fp16"), NullArgument("fp32"))


def call(*arguments: BufferArgument | WorkspaceArgument | LocalArgument) -> Call:
    return Call(KernelSource(""), tuple(CallStep("go", (argument,), (1,), (1,)) for argument in arguments))


def test_buffers_and_workspaces_of_several_launches_are_named_once() -> None:
    x, scratch = BufferArgument("x", "fp32"), WorkspaceArgument("scratch", "fp16", 8)
    several = call(x, scratch, x, scratch, LocalArgument(4))
    assert several.buffers() == {"x": x}
    assert several.workspaces() == (scratch,)
    assert scratch.size == 16
    assert [step.local_bytes for step in several.steps] == [0, 0, 0, 0, 4]


def test_a_buffer_that_two_launches_read_in_different_packings_is_a_mistake() -> None:
    with pytest.raises(KernelError, match="two launches take weights in different forms"):
        call(BufferArgument("weights", "fp32"), BufferArgument("weights", "fp32", Same())).buffers()
