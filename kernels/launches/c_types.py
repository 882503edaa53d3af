"""C types: the names of element types in OpenCL C and CUDA C, and scalars of these types."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import FormatError, shown

from ..devices.element_types import BY_OPENCL_NAME, ELEMENT_TYPES, element_type

DECLARABLE = tuple(BY_OPENCL_NAME.values())  # element types that libraries declare; OpenCL C has no bf16
C_TYPES = {  # name in OpenCL C, in CUDA C on 64-bit Linux, or in problems -> element type
    **BY_OPENCL_NAME, **{ELEMENT_TYPES[dtype].cuda: dtype for dtype in DECLARABLE},
    **{dtype: dtype for dtype in DECLARABLE}, "unsigned": "uint32", "unsigned long": "uint64", "size_t": "uint64"}
_MOST_WORDS = max(len(name.split()) for name in C_TYPES)


def split_type(text: str) -> tuple[str | None, str]:
    """Split `unsigned int n + 1` into the element type at its beginning and the rest; None if it begins with none."""
    words = text.split()
    for count in range(min(_MOST_WORDS, len(words) - 1), 0, -1):
        if (dtype := C_TYPES.get(" ".join(words[:count]))) is not None:
            return dtype, text.split(None, count)[count]
    return None, text


def scalar(dtype: str, value: Any) -> NDArray[Any]:
    """A number as an array of shape () of this type. Raises FormatError if the type cannot hold it."""
    element = element_type(dtype)
    kind = element.stored
    if isinstance(value, bool):
        value = int(value)
    if not isinstance(value, int | float):
        raise FormatError(f"{shown(value)} is not a number")
    if not element.is_float:
        if isinstance(value, float) and not value.is_integer():
            raise FormatError(f"{value} is not a whole number, which {dtype} needs")
        limits = np.iinfo(kind)
        if not limits.min <= value <= limits.max:
            raise FormatError(f"{shown(value)} does not fit into {dtype} ({limits.min} to {limits.max})")
        return np.array(int(value), kind)
    with np.errstate(over="ignore"):
        array = np.array(math.inf if abs(value) > sys.float_info.max else value, kind)
    if not np.isfinite(array):
        raise FormatError(f"{shown(value)} is not a number that {dtype} can hold")
    return array
