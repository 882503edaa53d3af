"""StepSource: the code of a step of a network and its launch, which a program binds to memory."""

from __future__ import annotations

from dataclasses import dataclass

from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.llvm.launch import Launch


@dataclass(frozen=True, slots=True)
class StepSource:
    """Equal sources are built once; sizes and strides are launch arguments.

    `launch.arguments[0]` is the address of the output and `launch.arguments[1:1 + operands]` those of the operands, 0
    until the program writes them. An address is the buffer's, plus the bytes of the view's offset. The entry's
    parameters %x, %w, %bias and %y are unused, so that a step has any number of operands.
    """

    source: KernelSource
    launch: Launch
    operands: int
