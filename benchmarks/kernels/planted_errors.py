"""Plant errors in the outputs of right kernels: `python -m benchmarks planted_errors [--device DEVICE] [--json]`.

Some configurations of every example of `examples/` run on the device. Their outputs, and the expected ones, are also
changed alike: by a ReLU that leaves 40 %, by a mask of -1e9 on 60 %, and by a factor of 1e9 on every 50th element. Then
errors are planted in what is not masked. The table has the shares of right outputs that are refused and of errors that
are found, by the rule before (max|difference| / max|expected|) and by today's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import seqtune
from benchmarks.common.program import OneLineParser
from benchmarks.common.report import Row, markdown
from seqtune.kernels.devices.element_types import element_type
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.task import Task
from seqtune.tuner.backends.backend import Backend, open_backend
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.measuring.expected_outputs import ExpectedOutputs, outputs_of, prepare_arrays

Array = NDArray[Any]
Form = Callable[[Array], Array]

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIGURATIONS = 10  # of each example, besides the default
REPEATS = 50  # errors of each kind that are planted
PROBLEMS: Mapping[str, str] = {  # folder of an example -> a problem; `blur` is a command, which reports its own error
    "convolution": "image_filter height=100 width=150 size=5", "matrix_product": "matrix_product m=192 n=160 k=256",
    "reduction": "row_sums rows=512 columns=1000", "stencil": "heat rows=128 columns=96",
    "vector_add": "vector_add n=20000"}


def _random_numbers(y: Array) -> Array:
    """A number from 0 to 99 for each element, the same in every run."""
    return np.random.default_rng(0).integers(0, 100, y.shape)


FORMS: Mapping[str, Form] = {
    "as it is": lambda y: y,
    "ReLU": lambda y: np.where(_random_numbers(y) < 40, np.abs(y), y * 0),
    "masked by -1e9": lambda y: np.where(_random_numbers(y) < 40, y, np.asarray(-1e9, y.dtype)),
    "some 1e9 as large": lambda y: np.where(_random_numbers(y) % 50, y, y * np.asarray(1e9, y.dtype))}


def _one(y: Array, own: Array, change: Callable[[Any, float], Any], generator: np.random.Generator) -> None:
    index = generator.choice(own)
    y[index] = change(y[index], float(np.median(np.abs(y[own]))))


def _all(y: Array, own: Array, values: Array) -> None:
    y[own] = values


ERRORS: Mapping[str, Callable[[Array, Array, np.random.Generator], None]] = {  # change `y` where it is not masked
    "one element by 1 %": lambda y, own, generator: _one(y, own, lambda value, size: value + 0.01 * size, generator),
    "one element is 0": lambda y, own, generator: _one(y, own, lambda value, size: 0, generator),
    "two elements swapped": lambda y, own, generator: _all(y, pair := generator.choice(own, 2, False), y[pair[::-1]]),
    "all by 0.1 %": lambda y, own, generator: _all(y, own, y[own] * 1.001),
    "all by one place": lambda y, own, generator: _all(y, own, np.roll(y[own], 1)),
    "all by a factor of 800": lambda y, own, generator: _all(y, own, 800 * y[own])}


def wrong_before(output: Array, expected: Array, tolerance: float) -> bool:
    """The rule before: the largest difference, relative to the largest expected element."""
    largest = float(np.abs(expected).max()) or 1.0
    return bool(not np.abs(output.astype(np.float64) - expected).max() <= tolerance * largest)


def rows_of(example: str, backend: Backend) -> Iterator[Row]:
    """A row of shares for each form of an example's outputs."""
    seqtune.use_library(EXAMPLES / example, allow_commands=True)
    problem = parse_problem(PROBLEMS[example])
    work, task = operation(problem.type), Task.of(problem, backend.device)
    arrays, tensors = prepare_arrays(problem)
    [(name, tensor)] = tensors.outputs.items()
    kernels = {kernel.name: kernel for kernel in task.kernels}
    chosen = [task.default, *(task[int(number)] for number in np.random.default_rng(0).choice(
        len(task), CONFIGURATIONS, False))]

    def compute(operands: Operands, index: int = 0) -> Array:
        configuration = chosen[index]
        return outputs_of(backend, problem, kernels[configuration.kernel], configuration, operands, tensors)[name]

    def expect(operands: Operands) -> Array:
        results = work.results(problem, operands)
        return compute(operands) if results is None else results[name]

    expected, outputs = expect(arrays), [compute(arrays, index) for index in range(len(chosen))]
    for title, form in FORMS.items():
        rule = ExpectedOutputs.of({name: form(expected)}, arrays, tensors,
                                  lambda operands, form=form: {name: form(expect(operands))})  # type: ignore[misc]
        yield {"example": example, "outputs": title, **_shares(
            rule, name, [form(output) for output in outputs], element_type(tensor.dtype).tolerance)}


def _shares(rule: ExpectedOutputs, name: str, outputs: Sequence[Array], tolerance: float) -> Row:
    """The shares of right outputs that are refused, and of each planted error that is found: (before, now)."""
    expected = rule.arrays[name]
    size = np.abs(expected).ravel()
    own = np.flatnonzero((size > 0) & (size < 1e4))
    generator = np.random.default_rng(0)

    def verdict(output: Array) -> tuple[bool, bool]:
        return wrong_before(output, expected, tolerance), bool(rule.compare(name, output).message)

    row: Row = {"right, refused": np.mean([verdict(output) for output in outputs], axis=0).tolist()}
    for title, plant in ERRORS.items():
        verdicts = []
        for repeat in range(REPEATS):
            output = outputs[repeat % len(outputs)].copy()
            plant(output.reshape(-1), own, generator)
            verdicts.append(verdict(output))
        row[title] = np.mean(verdicts, axis=0).tolist()
    return row


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table; a cell has the shares before and now."""
    return markdown(list(rows[0]), [[value if isinstance(value, str) else f"{value[0]:.2f} → {value[1]:.2f}"
                                     for value in row.values()] for row in rows], left=2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--device", default="opencl:0", help="device that runs the examples")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    given = parser.parse_args(arguments)
    backend = open_backend(find(given.device))
    try:
        rows = [row for example in PROBLEMS for row in rows_of(example, backend)]
    finally:
        backend.close()
    print(json.dumps(rows) if given.json else table(rows))
