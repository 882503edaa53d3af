"""T1 file: a kernel with its parameters, restrictions and arguments, written for Kernel Tuner or BAT.

The file describes one problem: its sizes are numbers. The library has the name of the benchmark, one operation
(`t1_NAME`) and one kernel, whose results are compared with those of the default configuration.
"""

from __future__ import annotations

import json
import keyword
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seqtune.errors import FormatError, SeqtuneWarning, one_line, shown

from ...devices.element_types import BY_OPENCL_NAME, ELEMENT_TYPES
from ...expression import Expression
from ...kernel import Setting, identity
from ...launches.c_types import scalar
from ..fault import at_path
from .fields import Fields
from .value_lists import parameter_value, size_text, value_list

LANGUAGES = ("opencl", "cuda")
AXES = ("X", "Y", "Z")
PARTS = ("ConfigurationSpace", "KernelSpecification")  # in every T1 file
# Names of these parts in BAT's files that are older than the final T1 format: kernelSpecification with blockSize and
# gridSize, or configuration_space with function_specification.
OLDER_PARTS = ("kernelSpecification", "configuration_space", "function_specification")
_NOT_LETTERS = re.compile(r"[^A-Za-z0-9_-]+")

Values = dict[str, list[Setting]]


def t1_content(text: str) -> Mapping[str, Any]:
    """The JSON object of a T1 file. Raises FormatError."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {str(error)[:100]}") from None
    if not isinstance(content, Mapping):
        raise FormatError("not a T1 file: it holds no JSON object")
    if content.keys() >= set(PARTS):
        return content
    older = [name for name in OLDER_PARTS if name in content]
    if older:
        raise FormatError(f"an older form of T1, with {' and '.join(older)}; convert it to General, ConfigurationSpace "
                          "(TuningParameters, Conditions) and KernelSpecification (Language, KernelName, KernelFile, "
                          "LocalSize, GlobalSize, Arguments with Name, Type, MemoryType, Size, FillType and FillValue)")
    raise FormatError(f"not a T1 file: it has {one_line(', '.join(content), 100) or 'no keys'}, and T1 has "
                      f"{' and '.join(PARTS)}")


def names_a_part(content: bytes) -> bool:
    """Whether a JSON text names a part of T1 files or of their older forms, and so is meant as one."""
    return any(f'"{part}"'.encode() in content for part in (*PARTS, *OLDER_PARTS))


def t1_document(content: Mapping[str, Any], stem: str) -> dict[str, Any]:
    """The document of a T1 file, as TOML would give it. `stem` names a library without a name. Raises DocumentFault."""
    file = Fields(content)
    specification = file.part("KernelSpecification")
    language = specification.text("Language").lower()
    if language not in LANGUAGES:
        raise specification.fault("Language", f"{specification.text('Language')!r:.20} is not run here; OpenCL and "
                                              "CUDA are")
    name = file.part("General").text("BenchmarkName", specification.text("BenchmarkName", stem))
    name = _NOT_LETTERS.sub("_", name)[:40] or "t1"
    values, defaults = _parameters(file.part("ConfigurationSpace"))
    problem = _problem_size(specification)
    arrays = declared_arrays(specification, values, problem)
    if arrays.symbols and language == "cuda":
        warnings.warn(SeqtuneWarning(f"{name}: the constant memory {', '.join(arrays.symbols)[:100]} is passed as an "
                                     "argument and not copied to the symbol"), stacklevel=2)
    operation = "t1_" + re.sub(r"[^a-z0-9_]", "_", name.lower())
    features = {f"problem_{axis.lower()}": {"meaning": f"size along {axis}", "default": size, "low": size, "high": size}
                for axis, size in zip(AXES, problem or [1], strict=False)}
    kernel = {
        "operation": operation, "parameters": values, "default": defaults,
        "constraints": _conditions(file.part("ConfigurationSpace")),
        language: _section(file, specification, language, values, problem, arrays)}
    return {"name": name, "meaning": f"T1: {specification.text('KernelName')}",
            "operations": {operation: {"features": features, "inputs": arrays.inputs, "outputs": arrays.outputs}},
            "kernels": {_NOT_LETTERS.sub("_", specification.text("KernelName")): kernel}}


def _parameters(space: Fields) -> tuple[Values, dict[str, Setting]]:
    """The values of each parameter, and the default values that are among them."""
    values: Values = {}
    defaults: dict[str, Setting] = {}
    for parameter in space.parts("TuningParameters"):
        name, given = parameter.text("Name"), parameter.raw("Values")
        if name in values:
            raise parameter.fault("Name", f"{name!r:.60} is declared twice")
        text = "" if isinstance(given, list) else parameter.text("Values")
        with at_path(*parameter.path, "Values"):
            listed = [parameter_value(value) for value in given] if isinstance(given, list) else value_list(text)
        values[name] = list({identity(value): value for value in listed}.values())
        default = parameter.raw("Default")
        for same in (identity, lambda value: value, str):  # files write the default 1 or "1.0" for the value 1.0, too
            equal = [value for value in values[name] if same(value) == same(default)]
            if equal:
                defaults[name] = equal[0]
                break
    return values, defaults


def _conditions(space: Fields) -> list[str]:
    """The restrictions, each once. Raises DocumentFault for one that is no expression."""
    conditions: dict[str, None] = {}
    for condition in space.parts("Conditions"):
        text = condition.text("Expression")
        with at_path(*condition.path, "Expression"):
            conditions.setdefault(Expression(text).text)
    return list(conditions)


def _problem_size(specification: Fields) -> list[int]:
    """The problem's sizes, none if the file gives none."""
    given = specification.raw("ProblemSize")
    sizes = [] if given is None else given if isinstance(given, list) else [given]
    if len(sizes) > len(AXES) or any(type(size) is not int or size < 1 for size in sizes):
        raise specification.fault("ProblemSize", "it must be one to three whole numbers")
    return sizes


def _section(file: Fields, specification: Fields, language: str, values: Values, problem: Sequence[int],
             arrays: DeclaredArrays) -> dict[str, Any]:
    """The run section: source, arguments, and a launch in groups."""
    local = [specification.part("LocalSize").text(axis, "1") for axis in AXES]
    groups = _groups(specification, language, local, problem)
    arguments = list(arrays.arguments)
    shared = specification.text("SharedMemory", "0")
    if language == "cuda" and shared.strip() != "0":
        arguments.append(f"local uint8 {shared}")
    config = file.part("BenchmarkConfig")
    defines = {name: config.text(name) for name in config.names()
               if name.isidentifier() and name not in values and _is_number(config.raw(name))}
    for axis, count in zip(AXES, groups, strict=True):
        for name in (f"GRID_SIZE_{axis}", f"grid_size_{axis.lower()}"):
            if name not in values:
                defines[name] = count
    return {"source": specification.text("KernelFile"), "entry": specification.text("KernelName"),
            "arguments": arguments, "groups": groups, "local": local, "defines": {**defines, "kernel_tuner": "1"},
            "options": [str(option) for option in specification.items("CompilerOptions")]}


def _groups(specification: Fields, language: str, local: Sequence[str], problem: Sequence[int]) -> list[str]:
    """The number of groups along each axis: by divisors of the problem's sizes, or by the global size."""
    divisors = [specification.items(f"GridDiv{axis}") for axis in AXES]
    if problem and any(divisors):
        products = [" * ".join(f"({divisor})" for divisor in each) or "1" for each in divisors]
        return [f"ceil_div({size}, {product})" for size, product in zip([*problem, 1, 1], products, strict=False)][:3]
    sizes = [specification.part("GlobalSize").text(axis, "1") for axis in AXES]
    if specification.text("GlobalSizeType", language).lower() == "cuda":
        return sizes
    return [f"ceil_div({size}, {width})" for size, width in zip(sizes, local, strict=True)]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
