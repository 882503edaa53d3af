"""T1 arguments: buffers, scalars and local memory of a T1 file as the inputs, outputs and arguments of a document."""

from __future__ import annotations

import keyword
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seqtune.errors import shown

from ...devices.element_types import BY_OPENCL_NAME, ELEMENT_TYPES
from ...kernel import Setting
from ...launches.c_types import scalar
from ..fault import at_path
from .fields import Fields
from .value_lists import size_text

TYPES = {"bool": "uint8", "byte": "int8", **BY_OPENCL_NAME,
         **{dtype: dtype for dtype in BY_OPENCL_NAME.values() if not ELEMENT_TYPES[dtype].is_float}}
LARGEST_RANDOM = 16  # whole number, if the file gives no bound: sums of many of them do not overflow 32 bits
LARGEST_SEED = 1 << 32
_WIDTHS = (2, 3, 4, 8, 16)  # numbers of a vector type: float4
_VECTORS = {f"{name}{width}": (dtype, width) for name, dtype in TYPES.items() if not name[-1].isdigit()
            for width in _WIDTHS}


@dataclass(slots=True)
class DeclaredArrays:
    """The arrays and arguments of a kernel, as a document writes them."""

    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)  # arrays in constant memory, which CUDA C fills by their name


def declared_arrays(specification: Fields, values: Mapping[str, Sequence[Setting]],
                    problem: Sequence[int]) -> DeclaredArrays:
    """Translate the arguments. Raises DocumentFault."""
    arrays = DeclaredArrays()
    flagged = any(argument.raw("Output") for argument in specification.parts("Arguments"))
    for index, argument in enumerate(specification.parts("Arguments")):
        kind = argument.text("MemoryType").lower()
        dtype, width = _type(argument)
        if kind == "scalar":
            arrays.arguments.append(f"{dtype} {argument.text('FillValue')}")
            continue
        if kind not in ("vector", "local"):
            raise argument.fault("MemoryType", f"{kind!r:.20} is not Vector, Scalar or Local")
        size = argument.text("Size")
        with at_path(*argument.path, "Size"):
            size = size_text(size, values, problem)
        size = size if width == 1 else f"({size}) * {width}"
        if kind == "local":
            arrays.arguments.append(f"local {dtype} {size}")
            continue
        name = _array_name(argument.text("Name", f"array{index}"))
        access = argument.text("AccessType", "ReadOnly").lower()
        is_output = bool(argument.raw("Output")) if flagged else access != "readonly"
        array: dict[str, Any] = {"shape": size, "dtype": dtype, "values": _contents(argument, dtype)}
        if is_output and access == "writeonly":
            array["restore"] = False  # no launch reads what an earlier one wrote
        elif not is_output and access == "readwrite":
            array["restore"] = True  # it is not compared, but changed
        (arrays.outputs if is_output else arrays.inputs)[name] = array
        arrays.arguments.append(name)
        if argument.text("MemType", "") == "Constant":
            arrays.symbols.append(name)
    return arrays


def _array_name(name: str) -> str:
    """The array's name as expressions can read it: C allows names that Python reserves."""
    return f"{name}_" if keyword.iskeyword(name) else name


def _type(argument: Fields) -> tuple[str, int]:
    """The element type and the number of elements in one item of the argument."""
    name = argument.text("Type")
    if name in TYPES:
        return TYPES[name], 1
    if name in _VECTORS:
        return _VECTORS[name]
    if name == "custom" and argument.has("TypeSize"):
        return "uint8", int(argument.number("TypeSize"))
    raise argument.fault("Type", f"{name!r:.30} is not known; there are {', '.join(TYPES)}, and vectors such as float4")


def _contents(argument: Fields, dtype: str) -> str | int | float:
    """The contents before a run; random numbers if the file does not give them."""
    kind = argument.text("FillType", "Random").lower()
    if kind in ("constant", "uninitialized"):
        return argument.number("FillValue") if argument.has("FillValue") else 0
    if kind == "random":
        return _random(argument, dtype)
    if kind == "generator" and argument.text("DataSource").strip() == "i":
        return "index"
    raise argument.fault("FillType", f"{kind!r:.20} is not read here; Constant, Random and the Generator 'i' are")


def _random(argument: Fields, dtype: str) -> str:
    """Random numbers from 0 to FillValue, as KTT draws them, with RandomSeed as their seed. Raises DocumentFault.

    KTT demands a FillValue, and Kernel Tuner ignores it. Without one, whole numbers are below LARGEST_RANDOM: many are
    indices, which are never negative. Numbers with a fraction are then normal, as Kernel Tuner draws them; also with 0,
    since zeros would hide every mistake of a kernel.
    """
    bound: int | float = argument.number("FillValue") if argument.has("FillValue") else 0
    if not ELEMENT_TYPES[dtype].is_float:
        bound = math.floor(bound) if argument.has("FillValue") else LARGEST_RANDOM
    with at_path(*argument.path, "FillValue"):
        scalar(dtype, bound)  # raises if the type cannot hold it
    words = "normal" if ELEMENT_TYPES[dtype].is_float and not bound else f"uniform {min(0, bound)}..{max(0, bound)}"
    if not argument.has("RandomSeed"):
        return words
    seed = argument.number("RandomSeed")
    if not (isinstance(seed, int) and 0 <= seed < LARGEST_SEED):
        raise argument.fault("RandomSeed", f"{shown(seed)} is no whole number from 0 to {LARGEST_SEED - 1}")
    return f"{words} seed {seed}"
