"""Element types: the numbers that kernels store and compute, with their names in NumPy, LLVM IR, OpenCL C, CUDA C,
Triton and PyTorch. Everything else that depends on an element type is derived from this table.

Operands of the kernels of this package are made, packed and compared on the host as numbers of `ElementType.host`. A
backend stores them as `ElementType.stored`; `encode` and `decode` convert.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ProblemError

NAN_BYTE = 0xFF  # 16, 32 or 64 bits of ones are a NaN, and one that no arithmetic gives
PATTERN_BYTE = 0xA5  # whole numbers have no NaN; repeated, this makes an unlikely one


@dataclass(frozen=True, slots=True)
class ElementType:
    """One element type. An empty name says that the language has no such type."""

    name: str  # the name in problems and libraries
    numpy: str  # the type of stored elements; NumPy has no bf16, whose 16 bits are stored as uint16
    ir: str = ""  # the type in memory; LLVM's bfloat is not used, because few operations take it
    opencl: str = ""
    cuda: str = ""
    triton: str = ""
    torch: str = ""
    rounding: float = 0.0  # largest relative error of rounding a number to the type: 2**-p with p binary digits; fp32's
    #                        is 0, because it is below any tolerance
    tolerance: float = 0.0  # default of the largest error, relative to a sum's size: rounding in some thousand products
    #                         stays below it; whole numbers are exact
    accumulator: str = ""  # the element type of sums of products, which is also that of a product's result for whole
    #                        numbers; empty: the type itself

    @property
    def stored(self) -> np.dtype[Any]:
        """The NumPy type of stored elements."""
        return np.dtype(self.numpy)

    @property
    def size(self) -> int:
        """The bytes of an element."""
        return self.stored.itemsize

    @property
    def is_float(self) -> bool:
        """Whether numbers of the type have fractions, and NaN."""
        return self.rounding > 0 or self.stored.kind == "f"

    @property
    def host(self) -> np.dtype[Any]:
        """The NumPy type that holds the numbers on the host: float32 for floats of at most 32 bits."""
        return np.dtype(np.float32) if self.is_float and self.size <= 4 else self.stored

    @property
    def poison(self) -> int:
        """The byte that fills outputs before a check, and the canaries beside inputs."""
        return NAN_BYTE if self.is_float else PATTERN_BYTE

    @property
    def canary(self) -> bytes:
        """The bytes of one canary beside a buffer that kernels write, in the byte order of this machine.

        It differs from `poison`, because a kernel that goes one element too far often copies what lies beside an input.
        That of a float is a signalling NaN, which every addition turns into a quiet one: a large number would swallow
        what is added to it, and a quiet NaN keeps its bits.
        """
        if not self.is_float:
            return bytes([0xFF - PATTERN_BYTE]) * self.size
        digits = round(-math.log2(self.rounding)) - 1 if self.rounding else int(np.finfo(self.stored).nmant)
        quiet = 1 << (digits - 1)  # the first bit of the fraction tells a quiet NaN from a signalling one
        return ((1 << (8 * self.size - 1)) - 1 - quiet).to_bytes(self.size, sys.byteorder)

    @property
    def result(self) -> ElementType:
        """The element type of a product's result: that of its sums for whole numbers, which do not fit back."""
        return self if self.is_float or not self.accumulator else ELEMENT_TYPES[self.accumulator]


ELEMENT_TYPES = {element.name: element for element in (
    ElementType("fp32", "float32", "float", "float", "float", "fp32", "float32", tolerance=1e-4),
    ElementType("fp16", "float16", "half", "half", "__half", "fp16", "float16", rounding=2.0**-11,
                tolerance=2e-3, accumulator="fp32"),
    ElementType("bf16", "uint16", "i16", "", "__nv_bfloat16", "bf16", "bfloat16", rounding=2.0**-8,
                tolerance=1.6e-2, accumulator="fp32"),
    ElementType("fp64", "float64", "double", "double", "double", "fp64", "float64", tolerance=1e-9),
    ElementType("int8", "int8", "i8", "char", "signed char", "i8", "int8", accumulator="int32"),
    ElementType("uint8", "uint8", "i8", "uchar", "unsigned char", "u8", "uint8"),
    ElementType("int16", "int16", "i16", "short", "short", "i16", "int16"),
    ElementType("uint16", "uint16", "i16", "ushort", "unsigned short", "u16", "uint16"),
    ElementType("int32", "int32", "i32", "int", "int", "i32", "int32"),
    ElementType("uint32", "uint32", "i32", "uint", "unsigned int", "u32", "uint32"),
    ElementType("int64", "int64", "i64", "long", "long long", "i64", "int64"),
    ElementType("uint64", "uint64", "i64", "ulong", "unsigned long long", "u64", "uint64"),
)}
BY_TORCH_NAME = {element.torch: name for name, element in ELEMENT_TYPES.items()}
BY_OPENCL_NAME = {element.opencl: name for name, element in ELEMENT_TYPES.items() if element.opencl}


def element_type(dtype: str) -> ElementType:
    """The element type of this name. Raises ProblemError if kernels cannot store it."""
    if dtype not in ELEMENT_TYPES:
        raise ProblemError(f"dtype={dtype:.20} is not an element type; there are {', '.join(ELEMENT_TYPES)}")
    return ELEMENT_TYPES[dtype]


def sizes_expression(dtypes: tuple[str, ...]) -> str:
    """The text of an expression that gives the bytes of an element of the feature `dtype`, which is one of `dtypes`."""
    return "{" + ", ".join(f"{name!r}: {ELEMENT_TYPES[name].size}" for name in dtypes) + "}[dtype]"


def encode(array: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The array as it is stored, contiguous; bf16 as the upper halves of float32.

    Numbers are rounded to the nearest, ties to even. Whole numbers must fit. Raises ProblemError.
    """
    element = element_type(dtype)
    contiguous = np.ascontiguousarray(array, element.host)
    if dtype != "bf16":
        return contiguous.astype(element.stored, copy=False)
    bits = contiguous.view(np.uint32)
    halves = bits >> 16  # in place from here on: operands can have millions of elements
    halves &= 1
    halves += 0x7FFF
    halves += bits
    halves >>= 16
    stored = halves.astype(np.uint16)
    stored[np.isnan(contiguous)] = 0x7FC0  # rounding could carry a NaN over to zero
    return stored


def decode(stored: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The inverse of `encode`, of the type `ElementType.host`. NaN stays NaN. Raises ProblemError."""
    element = element_type(dtype)
    if dtype == "bf16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(element.host)


def rounded(array: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The array with every number rounded to the element type. Raises ProblemError."""
    return array if array.dtype == element_type(dtype).stored else decode(encode(array, dtype), dtype)
