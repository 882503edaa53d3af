"""Entry arguments: what every entry of our own kernels in OpenCL C, CUDA C++ and Triton takes, in one order.

First come the operands in the operation's order (x, weights and bias of a convolution), then the output y, a workspace
of fp32 and signed 32-bit integers. Operands hold elements of the problem's `dtype`, y those of its result
(`ElementType.result`). A buffer that a problem does not have is null.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache

from seqtune.errors import KernelError

from ..operations.operation import MOST_OPERANDS
from ..operations.table import operation
from ..problem import Problem
from .call import Argument, BufferArgument, NullArgument, Packing, ScalarArgument, WorkspaceArgument


def entry_arguments(problem: Problem, integers: Iterable[int], packing: Packing | None = None,
                    workspace: int = 0) -> tuple[Argument, ...]:
    """The arguments for a problem; `packing` is that of the constant operand, `workspace` a number of fp32 elements.

    Raises KernelError if an integer does not fit into 32 bits.
    """
    work, dtype = operation(problem.type), problem.dtype
    operands = [BufferArgument(name, dtype, packing if name == work.constant else None)
                for name in work.operands(problem)]
    unused = [NullArgument(dtype)] * (MOST_OPERANDS - len(operands))
    scratch = WorkspaceArgument("workspace", "fp32", workspace) if workspace else NullArgument("fp32")
    return (*operands, *unused, BufferArgument("y", problem.element.result.name), scratch, *map(_integer, integers))


@lru_cache(maxsize=1 << 14)  # the configurations of a problem have most of their numbers in common
def _integer(value: int) -> ScalarArgument:
    try:
        return ScalarArgument("int32", struct.pack("<i", value))
    except struct.error:
        raise KernelError(f"the kernel computes sizes and offsets with 32-bit integers, and {value} does not fit"
                          ) from None
