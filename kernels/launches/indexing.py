"""Indexing: the problems that kernels solve whose code computes offsets of elements with 32-bit integers.

They are conditions of `Kernel.solves`. Kernels for LLVM compute offsets with 64 bits and have none.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..operations.table import operation

SIGNED, UNSIGNED = 31, 32  # bits of the largest offset


def offsets_fit(type_name: str, tensors: Iterable[str] = (), bits: int = SIGNED) -> tuple[tuple[str, str], ...]:
    """The conditions, each with its reason, that offsets within tensors of an operation fit into so many bits.

    `tensors` are names in `Operation.elements`, all of them by default.
    """
    elements = operation(type_name).elements
    return tuple((f"{elements[tensor]} <= {1 << bits}",
                  f"{tensor} has more than 2^{bits} elements, and its code indexes with 32 bits")
                 for tensor in tensors or elements)
