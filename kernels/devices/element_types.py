"""Element types: the bytes and the rounding of each `dtype`, and the conversion between float32 and stored elements.

Operands are made, packed and compared in float32 on the host. A backend stores them in the problem's element type.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ProblemError

from ..problem import Problem

Floats32 = NDArray[np.float32]


class ElementType(NamedTuple):
    """One element type: its size in bytes, and the largest relative error of rounding a number to it."""

    size: int
    rounding: float


ELEMENT_TYPES = {
    "fp32": ElementType(4, 0.0),  # below any tolerance
    "fp16": ElementType(2, 2.0**-11),  # half a unit of 11 binary digits
    "bf16": ElementType(2, 2.0**-8),  # half a unit of 8 binary digits
}


def element_type(dtype: str) -> ElementType:
    """The element type of this name. Raises ProblemError if kernels cannot store it."""
    if dtype not in ELEMENT_TYPES:
        raise ProblemError(f"dtype={dtype:.20} cannot be stored here; there are {', '.join(ELEMENT_TYPES)}")
    return ELEMENT_TYPES[dtype]


def dtype_of(problem: Problem) -> str:
    """The name of the problem's element type; fp32 where the operation has no such feature."""
    dtype = dict(problem).get("dtype")
    return dtype if isinstance(dtype, str) else "fp32"


def stored_type(problem: Problem) -> ElementType:
    """The element type in which kernels store the problem's operands and output. Raises ProblemError."""
    return element_type(dtype_of(problem))


def encode(array: Floats32, dtype: str) -> NDArray[Any]:
    """The array as it is stored: float32, float16, or for bf16 the upper halves of float32 as uint16.

    Numbers are rounded to the nearest, ties to even. Raises ProblemError.
    """
    element_type(dtype)
    contiguous = np.ascontiguousarray(array, np.float32)
    if dtype == "fp32":
        return contiguous
    if dtype == "fp16":
        return contiguous.astype(np.float16)
    bits = contiguous.view(np.uint32)
    halves = bits >> 16  # in place from here on: operands can have millions of elements
    halves &= 1
    halves += 0x7FFF
    halves += bits
    halves >>= 16
    stored = halves.astype(np.uint16)
    stored[np.isnan(contiguous)] = 0x7FC0  # rounding could carry a NaN over to zero
    return stored


def decode(stored: NDArray[Any], dtype: str) -> Floats32:
    """The inverse of `encode`. NaN stays NaN. Raises ProblemError."""
    element_type(dtype)
    if dtype == "bf16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32)


def rounded(array: Floats32, dtype: str) -> Floats32:
    """The array with every number rounded to the element type. Raises ProblemError."""
    return array if dtype == "fp32" else decode(encode(array, dtype), dtype)
