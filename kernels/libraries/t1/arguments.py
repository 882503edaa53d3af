"""T1 arguments: buffers, scalars and local memory of a T1 file as the inputs, outputs and arguments of a document."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...devices.element_types import BY_OPENCL_NAME, ELEMENT_TYPES
from ..fault import at_path
from .fields import Fields
from .value_lists import size_text

TYPES = {"bool": "uint8", "byte": "int8", **BY_OPENCL_NAME,
         **{dtype: dtype for dtype in BY_OPENCL_NAME.values() if not ELEMENT_TYPES[dtype].is_float}}
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


def declared_arrays(specification: Fields, values: Mapping[str, Sequence[int | str]],
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
        is_output = bool(argument.raw("Output")) if flagged else argument.text("AccessType", "ReadOnly") != "ReadOnly"
        array = {"shape": size, "dtype": dtype, "values": _contents(argument)}
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


def _contents(argument: Fields) -> str | int | float:
    """The contents before a run; random numbers if the file does not give them."""
    kind = argument.text("FillType", "Random").lower()
    if kind in ("constant", "uninitialized"):
        return argument.number("FillValue") if argument.has("FillValue") else 0
    if kind == "random":
        return "normal"
    if kind == "generator" and argument.text("DataSource").strip() == "i":
        return "index"
    raise argument.fault("FillType", f"{kind!r:.20} is not read here; Constant, Random and the Generator 'i' are")
