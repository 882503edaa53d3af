"""Check: the arrays of a folder's check, and what its outputs are compared with.

Outputs of built-in operations are compared with a reference that is written into the folder. Those of declared
operations are computed here, by their reference or by the default configuration, and are files of the folder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import DeviceError, UnavailableError, one_line
from seqtune.kernels.devices.element_types import ELEMENT_TYPES, element_type
from seqtune.kernels.launches.contents import RandomNumbers, copied_input, read_array, usual_bounds
from seqtune.kernels.operations.table import operation
from seqtune.kernels.operations.tensor import Tensor, Tensors

from ..backends.backend import open_backend
from ..measuring.error_rule import finite_sum
from ..measuring.expected_outputs import ExpectedOutputs, outputs_by_reference, prepare_outputs
from .chosen import Chosen, Files
from .reference import ReferenceText, reference_text
from .templates.arrays import make_array

MOST_WORK = 1e9  # multiply-adds of a reference: some seconds in one thread
MOST_COMPARED = 100_000  # elements of an output whose expected numbers are kept in a file: 1.6 MB
_WORDS = "Both compare the results with {}."
_CONSTANTS: Mapping[object, Any] = {"zeros": 0.0, "ones": 1.0}
_NORMAL = 1.75  # evenly drawn numbers up to this are about as large as normal ones

Json: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Check:
    """The arrays before a checked run, and how its outputs are compared.

    An output is compared at every `step`-th element, or by its sum (step 0), and may miss the expected numbers by the
    `allowed` error. These numbers are files, and sizes that errors are relative to; else the reference computes them.
    """

    tensors: Tensors
    contents: Mapping[str, Json]  # of the arrays that are not poisoned, as launch.json has them
    outputs: Mapping[str, Json]  # the rules of the compared outputs, as launch.json has them
    words: str  # a sentence on what outputs are compared with
    reference: ReferenceText | None = None  # None: expected numbers are files
    files: Files = field(default_factory=dict)
    nothing: str = ""  # why nothing is compared

    @property
    def arrays(self) -> Mapping[str, Tensor]:
        """The inputs, then the outputs."""
        return {**self.tensors.inputs, **self.tensors.outputs}

    @property
    def remark(self) -> str:
        """The end of the line that a check prints."""
        if self.nothing:
            return f"; nothing was compared, since {self.nothing}"
        return "; a sample of the elements was compared" if any(
            rule["step"] > 1 for rule in self.outputs.values()) else ""

    def python(self) -> str:
        """def references(arrays): the expected outputs by name that stand in no files."""
        if self.reference is None:
            return "def references(arrays):\n    return {}\n"
        (output,), types = self.outputs, {name: tensor.dtype for name, tensor in self.arrays.items()}
        return f"""{self.reference.python}

def references(arrays):
    types = {types!r}
    return {{"{output}": reference({{name: decoded(array, types[name]) for name, array in arrays.items()}})}}
"""

    def to_json(self) -> dict[str, object]:
        """The part of launch.json."""
        return {"contents": self.contents, "outputs": self.outputs, "remark": self.remark}


def check_of(chosen: Chosen, tensors: Tensors) -> Check:
    """The check of a chosen kernel; its reference in C, if it has one, is reference_NAME. Raises SeqtuneError."""
    arrays = {**tensors.inputs, **tensors.outputs}
    contents = {name: content_of(name, tensor, number) for number, (name, tensor) in enumerate(arrays.items(), start=1)
                if tensor.values is not None}
    if operation(chosen.problem.type).declares_tensors:
        return _by_files(chosen, tensors, contents)
    (output, tensor), = tensors.outputs.items()
    types = {name: each.dtype for name, each in tensors.inputs.items()}
    reference = reference_text(chosen.problem, types, f"reference_{chosen.name}")
    rule = {"allowed": reference.tolerance, "step": _step(tensor.size, MOST_WORK / reference.work)}
    return Check(tensors, contents, {output: rule}, _WORDS.format("a reference in double precision"), reference)


def content_of(name: str, tensor: Tensor, seed: int) -> Json:
    """The contents of an array in launch.json, which are drawn from `seed` unless they state one.

    Whole numbers are drawn from low to high, both included.
    """
    values, element = tensor.values, element_type(tensor.dtype)
    if isinstance(values, Path):
        return {"kind": "file", "file": f"inputs/{name}.bin"}
    if (copied := copied_input(values)) is not None:
        return {"kind": "copy", "of": copied}
    if values == "index":
        return {"kind": "index"}
    if (numbers := RandomNumbers.of(values)) is None:
        low = high = _CONSTANTS.get(values, values)
    else:
        normal = (-_NORMAL, _NORMAL) if numbers.is_normal else (0.0, 1.0)
        low, high = numbers.bounds or (normal if element.is_float else usual_bounds(element))
        seed = seed if numbers.seed is None else numbers.seed
    return {"kind": "drawn", "low": float(low), "high": float(high), "seed": seed}


def _step(count: int, most: float) -> int:
    """The step between the elements that are compared, about `most` of them; it shares no factor with `count`."""
    step = max(1, math.ceil(count / max(1.0, most)))
    while math.gcd(step, count) > 1:
        step += 1
    return step


def _by_files(chosen: Chosen, tensors: Tensors, contents: Mapping[str, Json]) -> Check:
    """The check of a declared operation."""
    arrays: dict[str, NDArray[Any]] = {}
    all_tensors, files = {**tensors.inputs, **tensors.outputs}, Files()
    for name, content in contents.items():
        tensor = all_tensors[name]
        if isinstance(tensor.values, Path):
            arrays[name] = read_array(tensor.values, tensor.shape).astype(element_type(tensor.dtype).stored)
            files[content["file"]] = arrays[name].tobytes()
        else:
            arrays[name] = make_array(content, tensor.dtype, tensor.size, Path(), arrays).reshape(tensor.shape)
    expected, words = _expected(chosen, arrays, tensors)
    if expected is None:
        return Check(tensors, contents, {}, f"Nothing is compared, since {words}.", files=files, nothing=words)
    rules = {name: _expected_files(name, tensor, expected, files) for name, tensor in tensors.outputs.items()}
    return Check(tensors, contents, rules, _WORDS.format(words), files=files)


def _expected(chosen: Chosen, arrays: Mapping[str, NDArray[Any]],
              tensors: Tensors) -> tuple[ExpectedOutputs | None, str]:
    """The expected outputs and where they come from; none, and why, where nothing here can compute them."""
    expected = outputs_by_reference(chosen.problem, arrays, tensors)
    if expected is not None:
        return expected, operation(chosen.problem.type).results_by or "the library's expected data"
    try:
        backend = open_backend(chosen.device)
    except (DeviceError, UnavailableError) as error:
        return None, f"the operation has no reference and the device is not here ({one_line(error, 100)})"
    try:
        outputs, note = prepare_outputs(chosen.problem, arrays, tensors, backend, lambda code, failures: None)
    finally:
        backend.close()
    return outputs, "; ".join(filter(None, (
        "the outputs of the default configuration, since the operation has no reference", note)))


def _expected_files(name: str, tensor: Tensor, expected: ExpectedOutputs, files: Files) -> Json:
    """Write the expected numbers of an output and their sizes; returns the output's rule."""
    rule, array = expected.rules[name], expected.arrays[name].reshape(-1)
    step = 0 if tensor.compares_sum else _step(tensor.size, MOST_COMPARED)
    dtype = "fp64" if element_type(tensor.dtype).is_float or not step else tensor.dtype
    numbers = array[::step].astype(ELEMENT_TYPES[dtype].stored) if step else finite_sum(array)
    sizes = rule.sizes.reshape(-1) if rule.sizes.size == 1 or not step else rule.sizes.reshape(-1)[::step]
    paths = f"expected/{name}.bin", f"expected/{name}.sizes.bin"
    files |= dict(zip(paths, (numbers.tobytes(), sizes.astype(np.float64).tobytes()), strict=True))
    return {"allowed": 0.0 if rule.exact else float(rule.tolerance), "step": step, "expected": paths[0], "type": dtype,
            "sizes": paths[1]}
