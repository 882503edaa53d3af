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
from ..measuring.tensor_limit import check_measurable
from .chosen import Chosen, Files
from .reference import c_values, reference_text
from .templates.arrays import make_array

MOST_WORK = 1e9  # multiply-adds of a reference: some seconds in one thread
MOST_COMPARED = 100_000  # elements of an output whose expected numbers are kept in a file: 1.6 MB
_WORDS = "Both compare the results with {}."
_SAMPLED = "; a sample of the elements was compared"
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
        if values in ("zeros", "ones", "index") or not isinstance(values, str):
            number = float({"zeros": 0, "ones": 1}.get(str(values), 0) if isinstance(values, str) else values)
            return cls("index" if values == "index" else "drawn", seed, number, number)
        numbers = RandomNumbers.of(values)
        assert numbers is not None
        low, high = (0.0, 1.0) if not numbers.is_normal else (-_NORMAL, _NORMAL)
        if not element.is_float:
            low, high = (0, 16) if element.stored.kind == "u" else (-8, 8)
        low, high = numbers.bounds or (low, high)
        return cls("drawn", seed if numbers.seed is None else numbers.seed, float(low), float(high))

    def c(self, names: Sequence[str]) -> str:
        """The initial value of a `struct content`; `names` are those of the arrays by number."""
        kind = "FILE_CONTENT" if self.kind == "file" else self.kind.upper()
        number = names.index(self.text) if self.kind == "copy" else self.number
        file = f'"{self.text}"' if self.kind == "file" else "NULL"
        return f"{{{kind}, {number}, {self.low!r}, {self.high!r}, {file}}}"

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        words: dict[str, dict[str, object]] = {
            "drawn": {"low": self.low, "high": self.high, "seed": self.number}, "file": {"file": self.text},
            "copy": {"of": self.text}}
        return {"kind": self.kind, **words.get(self.kind, {})}


@dataclass(frozen=True, slots=True)
class Check:
    """A check as texts. Both have functions that compare outputs or compute what they should be."""

    contents: Mapping[str, CheckContent]  # of all inputs and outputs
    c: str  # static struct verdict check(void *const *arrays)
    python: str  # def references(arrays): expected outputs by name; empty where they are files
    outputs: Mapping[str, Mapping[str, object]]  # the rule of each output, for launch.json
    words: str  # a sentence on what outputs are compared with
    files: Files = field(default_factory=dict)
    remark: str = ""  # at the end of the line that a check prints

    def to_json(self) -> dict[str, object]:
        """The part of launch.json."""
        return {"contents": {name: content.to_json() for name, content in self.contents.items()
                             if content.kind != "poison"}, "outputs": self.outputs}


def check_of(chosen: Chosen, tensors: Tensors) -> Check:
    """The check of a chosen kernel. Raises SeqtuneErrors."""
    check_measurable(chosen.problem)
    arrays = {**tensors.inputs, **tensors.outputs}
    contents = {name: CheckContent.of(name, tensor, number) for number, (name, tensor) in enumerate(
        arrays.items(), start=1)}
    if operation(chosen.problem.type).declares_tensors:
        return _by_files(chosen, tensors, contents)
    return _by_reference(chosen, tensors, contents)


def _by_reference(chosen: Chosen, tensors: Tensors, contents: Mapping[str, CheckContent]) -> Check:
    """The check of a built-in operation, whose only output is y."""
    (output, tensor), = tensors.outputs.items()
    types, number = {name: each.dtype for name, each in tensors.inputs.items()}, len(tensors.inputs)
    reference = reference_text(chosen.problem, types)
    step, allowed = _step(tensor.size, MOST_WORK / reference.work), reference.tolerance
    operands = "".join(f"arrays[{index}], " for index in range(number))
    count = -(-tensor.size // step)
    c = f"""{c_values(reference.dtypes)}{reference.c}
static struct verdict check(void *const *arrays)
{{
    double *wanted = memory({count}, sizeof *wanted);
    struct verdict verdict;
    for (int64_t i = 0; i < {count}; i++)
        wanted[i] = expected({operands}i * {step});
    verdict = compare(&buffers[{number}], arrays[{number}], FP64, wanted, NULL, 0, {count}, {step}, {allowed!r});
    free(wanted);
    return verdict;
}}
"""
    python = f"""{reference.python}

def references(arrays):
    return {{"{output}": reference(**{{name: decoded(arrays[name], dtype) for name, dtype in {types!r}.items()}})}}
"""
    return Check(contents, c, python, {output: {"allowed": allowed, "step": step}},
                 _WORDS.format("a reference in double precision"), remark=_SAMPLED if step > 1 else "")


def _step(count: int, most: float) -> int:
    """The step between the elements that are compared, about `most` of them; it shares no factor with `count`."""
    step = max(1, math.ceil(count / max(1.0, most)))
    while math.gcd(step, count) > 1:
        step += 1
    return step


def _by_files(chosen: Chosen, tensors: Tensors, contents: Mapping[str, CheckContent]) -> Check:
    """The check of a declared operation."""
    arrays: dict[str, NDArray[Any]] = {}
    files: Files = {}
    for name, tensor in {**tensors.inputs, **tensors.outputs}.items():
        if isinstance(tensor.values, Path):
            arrays[name] = read_array(tensor.values, tensor.shape).astype(element_type(tensor.dtype).stored)
            files[contents[name].text] = arrays[name].tobytes()
        elif tensor.values is not None:
            arrays[name] = make_array(contents[name].to_json(), tensor.dtype, tensor.size, Path(), arrays
                                      ).reshape(tensor.shape)
    expected, words = _expected(chosen, arrays, tensors)
    if expected is None:
        nothing = "static struct verdict check(void *const *arrays)\n{\n    (void)arrays;\n    (void)compare;\n" \
                  "    return (struct verdict){0, 0};\n}\n"
        return Check(contents, nothing, "def references(arrays):\n    return {}\n", {},
                     f"Nothing is compared, since {words}.", files, f"; nothing was compared, since {words}")
    rules, blocks = {}, []
    for number, (name, tensor) in enumerate(tensors.outputs.items(), start=len(tensors.inputs)):
        rules[name] = _expected_files(name, tensor, expected, files)
        blocks.append(_block(number, rules[name], files))
    c = ("static struct verdict check(void *const *arrays)\n{\n    struct verdict worst = {0, 0}, verdict;\n"
         f"    void *expected, *sizes;\n    size_t size;\n{''.join(blocks)}    return worst;\n}}\n")
    sampled = any(rule["step"] not in (0, 1) for rule in rules.values())
    return Check(contents, c, "def references(arrays):\n    return {}\n", rules, _WORDS.format(words), files,
                 _SAMPLED if sampled else "")


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


def _expected_files(name: str, tensor: Tensor, expected: ExpectedOutputs, files: Files) -> dict[str, object]:
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
    return {"allowed": 0.0 if rule.exact else float(rule.tolerance), "step": step, "expected": paths[0], "type": dtype,
            "sizes": paths[1]}


def _block(number: int, rule: Mapping[str, Any], files: Files) -> str:
    """The lines that compare an output with its files."""
    expected, sizes = files[rule["expected"]], files[rule["sizes"]]
    count = len(expected) // ELEMENT_TYPES[rule["type"]].size
    return f"""    size = {len(expected)};
    expected = file_content("{rule["expected"]}", &size);
    size = {len(sizes)};
    sizes = file_content("{rule["sizes"]}", &size);
    verdict = compare(&buffers[{number}], arrays[{number}], {rule["type"].upper()}, expected, sizes,
                      {len(sizes) // 8}, {count}, {rule["step"]}, {rule["allowed"]!r});
    free(expected);
    free(sizes);
    if (!(verdict.error <= verdict.allowed))
        return verdict;
    if (verdict.error >= worst.error)
        worst = verdict;
"""
