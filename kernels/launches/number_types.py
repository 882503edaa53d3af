"""Number types: the element types and scalars of called kernels, by the names that libraries and C use."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import FormatError, ProblemError, shown

NUMBER_TYPES: dict[str, np.dtype[Any]] = {name: np.dtype(numpy) for name, numpy in {
    "fp16": "float16", "fp32": "float32", "fp64": "float64", "int8": "int8", "uint8": "uint8", "int16": "int16",
    "uint16": "uint16", "int32": "int32", "uint32": "uint32", "int64": "int64", "uint64": "uint64"}.items()}
C_TYPES = {  # in OpenCL C and CUDA C on 64-bit Linux
    "half": "fp16", "float": "fp32", "double": "fp64", "char": "int8", "uchar": "uint8", "unsigned char": "uint8",
    "short": "int16", "ushort": "uint16", "unsigned short": "uint16", "int": "int32", "uint": "uint32",
    "unsigned": "uint32", "unsigned int": "uint32", "long": "int64", "ulong": "uint64", "unsigned long": "uint64",
    "long long": "int64", "unsigned long long": "uint64", "size_t": "uint64", **{name: name for name in NUMBER_TYPES}}
_MOST_WORDS = 3  # in the name of a C type

# The default of a tolerance: rounding in a sum of some thousand products stays below it; whole numbers are exact.
TOLERANCES = {"fp16": 2e-3, "fp32": 1e-4, "fp64": 1e-9}


def numpy_type(dtype: str) -> np.dtype[Any]:
    """The NumPy type of this name. Raises ProblemError."""
    if dtype not in NUMBER_TYPES:
        raise ProblemError(f"dtype={dtype:.20} cannot be stored here; there are {', '.join(NUMBER_TYPES)}")
    return NUMBER_TYPES[dtype]


def is_float(dtype: str) -> bool:
    """Whether numbers of the type have fractions, and NaN."""
    return numpy_type(dtype).kind == "f"


def split_type(text: str) -> tuple[str | None, str]:
    """Split `unsigned int n + 1` into the number type at its beginning and the rest; None if it begins with none."""
    words = text.split()
    for count in range(min(_MOST_WORDS, len(words) - 1), 0, -1):
        if (dtype := C_TYPES.get(" ".join(words[:count]))) is not None:
            return dtype, text.split(None, count)[count]
    return None, text


def scalar(dtype: str, value: Any) -> NDArray[Any]:
    """A number as an array of shape () of this type. Raises FormatError if the type cannot hold it."""
    kind = numpy_type(dtype)
    if isinstance(value, bool):
        value = int(value)
    if not isinstance(value, int | float):
        raise FormatError(f"{shown(value)} is not a number")
    if kind.kind != "f":
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
