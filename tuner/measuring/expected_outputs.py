"""ExpectedOutputs: the expected outputs of a problem whose operation declares them, and their comparison.

Expected outputs come from the operation's reference or data. Where the operation has neither, those of the default
configuration count, or of its stand-in if it fails: then all configurations must agree with that one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ProblemError, SeqtuneError, UnavailableError, one_line
from seqtune.kernels.devices.element_types import element_type
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.launches.contents import COPY_OF, all_contents
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.operations.table import operation
from seqtune.kernels.operations.tensor import Tensor, Tensors
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernels_for
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task

from ..backends.backend import Backend, BuildError, Executable, LaunchError, OutputCheck, build_executable
from ..stand_ins import default_and_stand_ins, failed_default
from .error_rule import Arrays, ErrorRule, Recompute, error_rules, finite_sum
from .tensor_limit import check_measurable

# Called before code runs that may end the process: with a description of the code, and the reasons why the
# configurations before it failed (None: the code is no configuration).
Announce = Callable[[str, Sequence[str] | None], None]


class Expectation(Protocol):
    """Checks the outputs of executables of one problem."""

    def check(self, executable: Executable) -> OutputCheck:
        """Compare the outputs of a run on poisoned outputs with the expected ones."""
        ...


@dataclass(frozen=True, slots=True)
class ExpectedOutputs:
    """The expected outputs by name, in types that hold them exactly enough, and how each may be missed.

    Raises ProblemError for another shape, for an output that is NaN everywhere, and for whole numbers that are not
    finite.
    """

    arrays: Arrays
    tensors: Mapping[str, Tensor]
    rules: Mapping[str, ErrorRule]

    def __post_init__(self) -> None:
        for name, tensor in self.tensors.items():
            array = self.arrays[name]
            if array.shape != tensor.shape:
                raise ProblemError(f"the expected {name} has the shape {array.shape}; {tensor.shape} is declared")
            if np.isnan(array).all() if element_type(tensor.dtype).is_float else not np.isfinite(array).all():
                raise ProblemError(f"{_not_finite(name, array)}: the reference or its inputs are wrong")

    @classmethod
    def of(cls, arrays: Arrays, operands: Operands, tensors: Tensors, recompute: Recompute | None) -> ExpectedOutputs:
        """The expected outputs for these operands. `recompute` makes those for others, where it is known how."""
        return cls(arrays, tensors.outputs, error_rules(arrays, operands, tensors, recompute))

    def check(self, executable: Executable) -> OutputCheck:
        """Compare all outputs; the first wrong one is named."""
        outputs, worst = executable.outputs(), 0.0
        for name in self.tensors:
            if name not in outputs:
                return OutputCheck(None, f"the implementation returns no {name!r:.40}")
            checked = self.compare(name, outputs[name])
            if checked.message:
                return checked
            worst = max(worst, checked.error or 0.0)
        return OutputCheck(worst)

    def compare(self, name: str, output: NDArray[Any]) -> OutputCheck:
        """Compare one output: of floats every element, or their sums, by its rule (see `ErrorRule`)."""
        expected, tensor, rule = self.arrays[name], self.tensors[name], self.rules[name]
        if output.shape != expected.shape:
            return OutputCheck(None, f"{name} has the shape {output.shape}, expected {expected.shape}")
        undefined = np.isnan(output)
        if undefined.any() and (bad := _first(undefined & (~np.isnan(expected) | _poisoned(output, tensor)))):
            return OutputCheck(None, f"NaN in {name}{bad}, or part of it never written, or an input read outside")
        where = f"the sum of {name}" if tensor.compares_sum else ""
        if tensor.compares_sum:
            if (other := _other_kind(output, expected)) is not None:
                return OutputCheck(None, f"wrong result in {where}: {other}")
            output, expected = finite_sum(output), finite_sum(expected)
        errors = rule.errors(output, expected)
        error = float(errors.max(initial=0.0))
        if not error > rule.tolerance:
            return OutputCheck(error)
        worst = int(errors.argmax())
        index = np.unravel_index(worst, errors.shape)
        wrong = int((errors > rule.tolerance).sum())
        detail = f"error {error:.2e}, allowed {rule.tolerance:.0e}" + (
            f", {wrong} of {errors.size} elements are wrong" if wrong > 1 else "")
        where = where or f"{name}{[int(axis) for axis in index]}"
        message = f"wrong result in {where}: {output[index]}, expected {expected[index]} ({detail})"
        return OutputCheck(error if math.isfinite(error) else None, message + _unwritten(output, tensor))


class NoExpectation:
    """No expectation: executables of a backend that needs none check themselves."""

    def check(self, executable: Executable) -> OutputCheck:
        """Refuse: the executable should have checked itself."""
        return OutputCheck(None, "the program reported neither an error nor a checksum")


def _poisoned(output: NDArray[Any], tensor: Tensor) -> NDArray[np.bool_]:
    """The floats that hold the bits of `poison`, a NaN that no arithmetic gives."""
    element = element_type(tensor.dtype)
    bits = np.ascontiguousarray(output).view(f"u{output.itemsize}")
    pattern = int.from_bytes(bytes([element.poison]) * element.size, sys.byteorder)
    pattern <<= 8 * (output.itemsize - element.size)  # bf16 comes as the upper half of a float32
    return np.asarray(bits == pattern, np.bool_)


def _other_kind(output: NDArray[Any], expected: NDArray[Any]) -> str | None:
    """The first kind of number that is not finite and occurs another number of times than expected."""
    for kind, holds in (("NaN", np.isnan), ("inf", np.isposinf), ("-inf", np.isneginf)):
        count, expected_count = int(holds(output).sum()), int(holds(expected).sum())
        if count != expected_count:
            return f"{count} elements are {kind}, expected {expected_count}"
    return None


def _unwritten(output: NDArray[Any], tensor: Tensor) -> str:
    """A remark about whole numbers that still hold the pattern of `poison`."""
    element = element_type(tensor.dtype)
    if element.is_float or tensor.compares_sum:
        return ""
    pattern = np.frombuffer(bytes([element.poison]) * output.itemsize, output.dtype)[0]
    count = int((output == pattern).sum())
    return f"; {count} elements were never written" if count else ""


def _not_finite(name: str, array: NDArray[Any]) -> str:
    """The first number of an expected output that is not finite, and how many there are."""
    finite = np.isfinite(array)
    bad = _first(~finite) or []
    count = array.size - int(finite.sum())
    return f"the expected {name}{bad} is {array[tuple(bad)]} ({count} of {array.size} elements are not finite)"


def _check_finite(arrays: Arrays, tensors: Tensors) -> None:
    """Check the outputs of a default configuration: it may not decide where infinities and NaN are right.

    Canaries around inputs and unwritten outputs are NaN (see `GuardedBuffers`), so both look like wrong results. Raises
    ProblemError with the possible causes, and what to do about each.
    """
    for name, output in tensors.outputs.items():
        if np.isfinite(arrays[name]).all():
            continue
        like = next((each for each, tensor in tensors.inputs.items()
                     if (tensor.size, tensor.dtype) == (output.size, output.dtype)), None)
        start = 'values = "zeros"' + ("" if like is None else f' or values = "{COPY_OF}{like}"')
        unwritten = "" if output.values is not None else (
            f"it did not write the element (where that is right, as at a border, give the output {start}), ")
        raise ProblemError(f"{_not_finite(name, arrays[name])}: the default configuration computed it: {unwritten}it "
                           f"read outside an input ({', '.join(tensors.inputs) or 'there is none'}), or its arguments "
                           "swap an input and an output; where it is right, declare a reference")


def _first(mask: NDArray[np.bool_]) -> list[int] | None:
    """The index of the first true element."""
    if not mask.any():
        return None
    return [int(axis) for axis in np.unravel_index(int(mask.argmax()), mask.shape)]


def prepare_arrays(problem: Problem, seed: int = 0) -> tuple[Operands, Tensors]:
    """Make the inputs, and the contents of outputs that have some, read-only. Raises SeqtuneError."""
    check_measurable(problem)
    tensors = operation(problem.type).tensors(problem)
    arrays = all_contents(tensors, seed)
    for array in arrays.values():
        array.setflags(write=False)
    return arrays, tensors


def prepare_outputs(problem: Problem, arrays: Operands, tensors: Tensors, backend: Backend,
                    announce: Announce, failures: Sequence[str] = ()) -> tuple[ExpectedOutputs, str]:
    """The expected outputs, by the operation, by the default configuration or by its stand-in, with a note on that.

    `failures` are the reasons why the first of default and stand-ins failed in an earlier process; they are not tried
    again. Raises SeqtuneError if the reference fails, or the default and all of its stand-ins.
    """
    expected = outputs_by_reference(problem, arrays, tensors, announce)
    if expected is not None:
        return expected, ""
    return _outputs_of_default(problem, arrays, tensors, backend, announce, list(failures))


def outputs_by_reference(problem: Problem, arrays: Operands, tensors: Tensors,
                         announce: Announce = lambda code, failures: None) -> ExpectedOutputs | None:
    """The expected outputs by the operation's reference or data; None if it has neither. Raises SeqtuneError."""
    work = operation(problem.type)

    def by_reference(operands: Operands) -> Arrays | None:
        if work.results_by:
            announce(work.results_by, None)
        return work.results(problem, operands)

    results = by_reference(arrays)
    return None if results is None else ExpectedOutputs.of(
        results, arrays, tensors, by_reference if work.results_by else None)


def _outputs_of_default(problem: Problem, arrays: Operands, tensors: Tensors, backend: Backend,
                        announce: Announce, failures: list[str]) -> tuple[ExpectedOutputs, str]:
    families = [family for family in kernels_for(problem, backend.device) if family.implementation is not None]
    spaces = (SearchSpace(family, problem, backend.device) for family in families)
    task = Task(problem, backend.device, tuple(space for space in spaces if len(space)))
    if not task.spaces:
        raise ProblemError(f"no kernel that runs on {backend.device.name} solves {problem.brief()}")
    kernels = {family.name: family for family in families}
    for attempt, configuration in enumerate(default_and_stand_ins(task)):
        if attempt < len(failures):
            continue
        described = (f"{'the default configuration' if not attempt else 'a stand-in for the default'} of "
                     f"{configuration.kernel} ({configuration.brief()})")
        family = kernels[configuration.kernel]

        def by_default(operands: Operands, described: str = described, family: Kernel = family,
                       configuration: Configuration = configuration) -> Arrays:
            announce(described, failures)
            return outputs_of(backend, problem, family, configuration, operands, tensors)

        try:
            outputs = by_default(arrays)
            if attempt:  # of the default itself, numbers that are not finite are the library's mistake
                _check_finite(outputs, tensors)
        except UnavailableError:  # a library that is not installed: no configuration can run
            raise
        except (BuildError, LaunchError, SeqtuneError) as error:
            failures.append(one_line(error))
            continue
        _check_finite(outputs, tensors)
        note = failed_default(task.default, failures[0], configuration) if failures else ""
        return ExpectedOutputs.of(outputs, arrays, tensors, by_default), note
    raise SeqtuneError(f"{problem.brief()}: there is nothing to compare with, because "
                       f"{failed_default(task.default, failures[0], others=len(failures) - 1)}")


def outputs_of(backend: Backend, problem: Problem, kernel: Kernel, configuration: Configuration, arrays: Operands,
             tensors: Tensors) -> Arrays:
    """Return what one configuration writes. Raises BuildError, LaunchError, SeqtuneError."""
    executable = build_executable(backend, problem, kernel, configuration)
    try:
        executable.load(arrays)
        executable.poison()
        executable.run()
        if (buffer := executable.overrun()) is not None:
            raise LaunchError(f"it wrote outside its buffer: {buffer}")
        return {name: np.array(array) for name, array in executable.outputs().items()}
    finally:
        executable.close()
