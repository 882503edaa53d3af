"""ExpectedOutputs: the expected outputs of a problem whose operation declares them, and their comparison.

Expected outputs come from the operation's reference or data. Where the operation has neither, those of the default
configuration count, or of its stand-in if it fails: then all configurations must agree with that one.
"""

from __future__ import annotations

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

Arrays = Mapping[str, NDArray[Any]]
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
    """The expected outputs by name, in types that hold them exactly enough. Raises ProblemError for a NaN in them."""

    arrays: Arrays
    tensors: Mapping[str, Tensor]
    inputs: Mapping[str, Tensor] | None = None  # those of the default configuration, where it computed the arrays

    def __post_init__(self) -> None:
        for name, tensor in self.tensors.items():
            array = self.arrays[name]
            if array.shape != tensor.shape:
                raise ProblemError(f"the expected {name} has the shape {array.shape}; {tensor.shape} is declared")
            if (bad := _first(~np.isfinite(array))) is not None:
                count = int(array.size - np.isfinite(array).sum())
                raise ProblemError(f"the expected {name}{bad} is {array[tuple(bad)]} ({count} of {array.size} elements "
                                   f"are not finite): {_causes(tensor, self.inputs)}")

    def check(self, executable: Executable) -> OutputCheck:
        """Compare all outputs; the first wrong one is named."""
        outputs, worst = executable.outputs(), 0.0
        for name, tensor in self.tensors.items():
            if name not in outputs:
                return OutputCheck(None, f"the implementation returns no {name!r:.40}")
            checked = compare(name, outputs[name], self.arrays[name], tensor)
            if checked.message:
                return checked
            worst = max(worst, checked.error or 0.0)
        return OutputCheck(worst)


class NoExpectation:
    """No expectation: executables of a backend that needs none check themselves."""

    def check(self, executable: Executable) -> OutputCheck:
        """Refuse: the executable should have checked itself."""
        return OutputCheck(None, "the program reported neither an error nor a checksum")


def compare(name: str, output: NDArray[Any], expected: NDArray[Any], tensor: Tensor) -> OutputCheck:
    """Compare one output: error max|output - expected| / max|expected|, of the sums if only they are compared."""
    if output.shape != expected.shape:
        return OutputCheck(None, f"{name} has the shape {output.shape}, expected {expected.shape}")
    element = element_type(tensor.dtype)
    allowed = element.tolerance if tensor.tolerance is None else tensor.tolerance
    if (bad := _first(np.isnan(output))) is not None:
        return OutputCheck(None, f"NaN in {name}{bad}, or part of it never written, or an input read outside")
    if tensor.compares_sum:
        output, expected = (np.array([array.sum(dtype=np.float64)]) for array in (output, expected))
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(output.astype(np.float64) - expected.astype(np.float64))
    error = float(difference.max(initial=0.0)) / (float(np.abs(expected.astype(np.float64)).max(initial=0.0)) or 1.0)
    differs = error > allowed if allowed or element.is_float else bool((output != expected).any())
    if not differs:
        return OutputCheck(error)
    worst = [] if tensor.compares_sum else _first(difference == difference.max())
    index = (0,) if tensor.compares_sum else tuple(worst or ())
    where = f"the sum of {name}" if tensor.compares_sum else f"{name}{worst}"
    message = f"wrong result in {where}: {output[index]}, expected {expected[index]}"
    return OutputCheck(error, f"{message} (error {error:.2e}, allowed {allowed:.0e}){_unwritten(output, tensor)}")


def _unwritten(output: NDArray[Any], tensor: Tensor) -> str:
    """A remark about whole numbers that still hold the pattern of `poison`."""
    element = element_type(tensor.dtype)
    if element.is_float or tensor.compares_sum:
        return ""
    pattern = np.frombuffer(bytes([element.poison]) * output.itemsize, output.dtype)[0]
    count = int((output == pattern).sum())
    return f"; {count} elements were never written" if count else ""


def _causes(output: Tensor, inputs: Mapping[str, Tensor] | None) -> str:
    """The possible causes of a number in an expected output that is not finite, and what to do about each.

    Canaries around inputs and unwritten outputs are NaN (see `GuardedBuffers`), so both look like wrong results.
    """
    if inputs is None:
        return "the reference or its inputs are wrong"
    like = next((name for name, tensor in inputs.items() if (tensor.size, tensor.dtype) == (output.size, output.dtype)),
                None)
    start = 'values = "zeros"' + ("" if like is None else f' or values = "{COPY_OF}{like}"')
    unwritten = "" if output.values is not None else (
        f"it did not write the element (where that is right, as at a border, give the output {start}), ")
    return (f"the default configuration computed it: {unwritten}it read outside an input "
            f"({', '.join(inputs) or 'there is none'}), or its arguments swap an input and an output")


def _first(mask: NDArray[np.bool_]) -> list[int] | None:
    """The index of the first true element."""
    if not mask.any():
        return None
    return [int(axis) for axis in np.unravel_index(int(mask.argmax()), mask.shape)]


def prepare_arrays(problem: Problem, seed: int = 0) -> tuple[Operands, Tensors]:
    """Make the inputs, and the contents of outputs that have some, read-only. Raises SeqtuneError."""
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
    work = operation(problem.type)
    if work.results_by:
        announce(work.results_by, None)
    results: Arrays | None = work.results(problem, arrays)
    if results is not None:
        return ExpectedOutputs(results, tensors.outputs), ""
    results, note = _outputs_of_default(problem, arrays, tensors, backend, announce, list(failures))
    return ExpectedOutputs(results, tensors.outputs, tensors.inputs), note


def _outputs_of_default(problem: Problem, arrays: Operands, tensors: Tensors, backend: Backend,
                        announce: Announce, failures: list[str]) -> tuple[Arrays, str]:
    families = [family for family in kernels_for(problem, backend.device) if family.implementation is not None]
    spaces = (SearchSpace(family, problem, backend.device) for family in families)
    task = Task(problem, backend.device, tuple(space for space in spaces if len(space)))
    if not task.spaces:
        raise ProblemError(f"no kernel that runs on {backend.device.name} solves {problem.brief()}")
    kernels = {family.name: family for family in families}
    for attempt, configuration in enumerate(default_and_stand_ins(task)):
        if attempt < len(failures):
            continue
        announce(f"{'the default configuration' if not attempt else 'a stand-in for the default'} of "
                 f"{configuration.kernel} ({configuration.brief()})", failures)
        try:
            outputs = _outputs(backend, problem, kernels[configuration.kernel], configuration, arrays, tensors)
            if attempt:  # of the default itself, numbers that are not finite are the library's mistake
                ExpectedOutputs(outputs, tensors.outputs)
        except UnavailableError:  # a library that is not installed: no configuration can run
            raise
        except (BuildError, LaunchError, SeqtuneError) as error:
            failures.append(one_line(error))
            continue
        return outputs, failed_default(task.default, failures[0], configuration) if failures else ""
    raise SeqtuneError(f"{problem.brief()}: there is nothing to compare with, because "
                       f"{failed_default(task.default, failures[0], others=len(failures) - 1)}")


def _outputs(backend: Backend, problem: Problem, kernel: Kernel, configuration: Configuration, arrays: Operands,
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
