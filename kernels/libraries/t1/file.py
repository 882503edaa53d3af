"""T1 file: a kernel with its parameters, restrictions and arguments, written for Kernel Tuner or BAT.

The file describes one problem: its sizes are numbers. The library has the name of the benchmark, one operation
(`t1_NAME`) and one kernel, whose results are compared with those of the default configuration.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from seqtune.errors import FormatError, SeqtuneWarning, one_line

from ...expression import Expression
from ...kernel import Setting, identity
from ..fault import at_path
from .arguments import DeclaredArrays, declared_arrays
from .fields import Fields
from .value_lists import parameter_value, value_list

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

