"""Check: the arrays of a folder's check, and what its outputs are compared with.

Outputs of built-in operations are compared with a reference that is written into the folder. Those of declared
operations are computed here, by their reference or by the default configuration, and are files of the folder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import DeviceError, UnavailableError, one_line
from seqtune.kernels.devices.element_types import ELEMENT_TYPES, element_type
from seqtune.kernels.launches.contents import RandomNumbers, copied_input, read_array
from seqtune.kernels.operations.table import operation
from seqtune.kernels.operations.tensor import Tensor, Tensors

from ..backends.backend import open_backend
from ..measuring.expected_outputs import ExpectedOutputs, prepare_outputs
from .chosen import Chosen, Files
from .reference import ReferenceText, reference_text
from .templates.arrays import make_array

MOST_WORK = 1e9  # multiply-adds of a reference: some seconds in one thread
MOST_COMPARED = 100_000  # elements of an output whose expected numbers are kept in a file: 1.6 MB
_WORDS = "Both compare the results with {}."
_CONSTANTS: Mapping[object, float] = {"zeros": 0.0, "ones": 1.0}
_NORMAL = 1.75  # evenly drawn numbers up to this are about as large as normal ones


@dataclass(frozen=True, slots=True)
class CheckContent:
    """The contents of an array before the check, as launch.json and kernel.h say them."""

    kind: str  # poison | drawn | index | file | copy
    number: int = 0  # the seed of what is drawn, the byte of poison
    low: float = 0.0
    high: float = 0.0  # whole numbers are drawn from low to high, both included
    text: str = ""  # the file, or the input that is copied

    @classmethod
    def of(cls, name: str, tensor: Tensor, seed: int) -> CheckContent:
        """The contents of an array, which are drawn from `seed` unless they state one."""
        values, element = tensor.values, element_type(tensor.dtype)
        if values is None:
            return cls("poison", element.poison)
        if isinstance(values, Path):
            return cls("file", text=f"inputs/{name}.bin")
        if (copied := copied_input(values)) is not None:
            return cls("copy", text=copied)
        if values == "index":
            return cls("index")
        if (numbers := RandomNumbers.of(values)) is None:
            number = float(_CONSTANTS.get(values, values))
            return cls("drawn", seed, number, number)
        low, high = (0.0, 1.0) if not numbers.is_normal else (-_NORMAL, _NORMAL)
        if not element.is_float:
            low, high = (0, 16) if element.stored.kind == "u" else (-8, 8)
        low, high = numbers.bounds or (low, high)
        return cls("drawn", seed if numbers.seed is None else numbers.seed, float(low), float(high))

    def c(self, names: Sequence[str]) -> str:
        """The initial value of a `struct content`; `names` are those of the arrays by number."""
        kind = "FILE_CONTENT" if self.kind == "file" else self.kind.upper()
        number = names.index(self.text) if self.kind == "copy" else self.number
        return f"{{{kind}, {number}, {self.low!r}, {self.high!r}, {_file(self.text if self.kind == 'file' else '')}}}"

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        words: dict[str, dict[str, object]] = {
            "drawn": {"low": self.low, "high": self.high, "seed": self.number}, "file": {"file": self.text},
            "copy": {"of": self.text}}
        return {"kind": self.kind, **words.get(self.kind, {})}


@dataclass(frozen=True, slots=True)
class Rule:
    """How an output is compared: element i * step should be number i of `count`; a step of 0 compares the sum."""

    output: str
    step: int
    count: int
    allowed: float  # the largest error
    dtype: str = "fp64"  # of the expected numbers
    expected: str = ""  # the files of the expected numbers and their sizes; empty where the reference computes them
    sizes: str = ""

    def c(self, names: Sequence[str]) -> str:
        """The initial value of a `struct rule`; `names` are those of the arrays by number."""
        return (f"{{{names.index(self.output)}, {self.step}, {self.count}, {self.allowed!r}, {self.dtype.upper()}, "
                f"{_file(self.expected)}, {_file(self.sizes)}}}")

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        files = {"expected": self.expected, "type": self.dtype, "sizes": self.sizes} if self.expected else {}
        return {"allowed": self.allowed, "step": self.step, **files}


@dataclass(frozen=True, slots=True)
class Check:
    """The arrays before a checked run, and how its outputs are compared."""

    arrays: Mapping[str, Tensor]  # the inputs, then the outputs
    contents: Mapping[str, CheckContent]
    rules: Sequence[Rule]  # of the compared outputs
    words: str  # a sentence on what outputs are compared with
    reference: ReferenceText | None = None  # None: expected numbers are files
    files: Files = field(default_factory=dict)
    nothing: str = ""  # why nothing is compared

    @property
    def remark(self) -> str:
        """The end of the line that a check prints."""
        if self.nothing:
            return f"; nothing was compared, since {self.nothing}"
        return "; a sample of the elements was compared" if any(rule.step > 1 for rule in self.rules) else ""

    def c_arrays(self) -> str:
        """The initial values of `struct array`, a line each."""
        return "".join(c_array(name, tensor.dtype, tensor.size, self.contents[name].c(list(self.arrays)))
                       for name, tensor in self.arrays.items())

    def c_rules(self) -> str:
        """The initial values of `struct rule`."""
        return ", ".join(rule.c(list(self.arrays)) for rule in self.rules)

    def python(self) -> str:
        """def references(arrays): the expected outputs by name that stand in no files."""
        if self.reference is None:
            return "def references(arrays):\n    return {}\n"
        types = {name: tensor.dtype for name, tensor in self.arrays.items() if name != self.rules[0].output}
        return f"""{self.reference.python}

def references(arrays):
    return {{"{self.rules[0].output}": reference({{name: decoded(arrays[name], dtype)
                               for name, dtype in {types!r}.items()}})}}
"""

    def to_json(self) -> dict[str, object]:
        """The part of launch.json."""
        return {"contents": {name: content.to_json() for name, content in self.contents.items()
                             if content.kind != "poison"},
                "outputs": {rule.output: rule.to_json() for rule in self.rules}}


def c_array(name: str, dtype: str, count: int, content: str) -> str:
    """A line with the initial value of a `struct array`."""
    return f'    {{"{name}", {dtype.upper()}, {count}, {content}}},\n'


def check_of(chosen: Chosen, tensors: Tensors, function: str = "reference_y") -> Check:
    """The check of a chosen kernel; `function` is the name of its reference in C, if there is one.

    Raises SeqtuneErrors.
    """
    arrays = {**tensors.inputs, **tensors.outputs}
    contents = {name: CheckContent.of(name, tensor, number) for number, (name, tensor) in enumerate(
        arrays.items(), start=1)}
    if operation(chosen.problem.type).declares_tensors:
        return _by_files(chosen, tensors, contents)
    (output, tensor), = tensors.outputs.items()
    reference = reference_text(chosen.problem, {name: each.dtype for name, each in tensors.inputs.items()},
                               function)
    step = _step(tensor.size, MOST_WORK / reference.work)
    return Check(arrays, contents, [Rule(output, step, -(-tensor.size // step), reference.tolerance)],
                 _WORDS.format("a reference in double precision"), reference)


def _file(path: str) -> str:
    """The name of a file in C."""
    return f'"{path}"' if path else "NULL"


def _step(count: int, most: float) -> int:
    """The step between the elements that are compared, about `most` of them; it shares no factor with `count`."""
    step = max(1, math.ceil(count / max(1.0, most)))
    while math.gcd(step, count) > 1:
        step += 1
    return step


def _by_files(chosen: Chosen, tensors: Tensors, contents: Mapping[str, CheckContent]) -> Check:
    """The check of a declared operation."""
    arrays: dict[str, NDArray[Any]] = {}
    all_tensors, files = {**tensors.inputs, **tensors.outputs}, Files()
    for name, tensor in all_tensors.items():
        if isinstance(tensor.values, Path):
            arrays[name] = read_array(tensor.values, tensor.shape).astype(element_type(tensor.dtype).stored)
            files[contents[name].text] = arrays[name].tobytes()
        elif tensor.values is not None:
            arrays[name] = make_array(contents[name].to_json(), tensor.dtype, tensor.size, Path(), arrays
                                      ).reshape(tensor.shape)
    expected, words = _expected(chosen, arrays, tensors)
    if expected is None:
        return Check(all_tensors, contents, [], f"Nothing is compared, since {words}.", files=files, nothing=words)
    rules = [_expected_files(name, tensor, expected, files) for name, tensor in tensors.outputs.items()]
    return Check(all_tensors, contents, rules, _WORDS.format(words), files=files)


def _expected(chosen: Chosen, arrays: Mapping[str, NDArray[Any]],
              tensors: Tensors) -> tuple[ExpectedOutputs | None, str]:
    """The expected outputs and where they come from; none, and why, where nothing here can compute them."""
    work, problem = operation(chosen.problem.type), chosen.problem
    results = work.results(problem, arrays)
    if results is not None:
        recompute = (lambda operands: work.results(problem, operands)) if work.results_by else None
        return ExpectedOutputs.of(results, arrays, tensors, recompute), work.results_by or "the library's expected data"
    try:
        backend = open_backend(chosen.device)
    except (DeviceError, UnavailableError) as error:
        return None, f"the operation has no reference and the device is not here ({one_line(error, 100)})"
    try:
        outputs, note = prepare_outputs(problem, arrays, tensors, backend, lambda code, failures: None)
    finally:
        backend.close()
    return outputs, "; ".join(filter(None, (
        "the outputs of the default configuration, since the operation has no reference", note)))


def _expected_files(name: str, tensor: Tensor, expected: ExpectedOutputs, files: Files) -> Rule:
    """Write the expected numbers of an output and their sizes; returns the output's rule."""
    rule, array = expected.rules[name], expected.arrays[name].reshape(-1)
    step = 0 if tensor.compares_sum else _step(tensor.size, MOST_COMPARED)
    dtype = "fp64" if element_type(tensor.dtype).is_float or not step else tensor.dtype
    if step:
        numbers = array[::step].astype(ELEMENT_TYPES[dtype].stored)
    else:
        numbers = np.array([array.sum(dtype=np.float64, where=np.isfinite(array))])
    sizes = rule.sizes.reshape(-1) if rule.sizes.size == 1 or not step else rule.sizes.reshape(-1)[::step]
    paths = f"expected/{name}.bin", f"expected/{name}.sizes.bin"
    files |= dict(zip(paths, (numbers.tobytes(), sizes.astype(np.float64).tobytes()), strict=True))
    return Rule(name, step, len(numbers), 0.0 if rule.exact else float(rule.tolerance), dtype, *paths)
