"""ErrorRule: how far each element of a declared operation's output may be from the expected one.

Its error is |output - expected| divided by the size of the sum that the element is (see `typical_sizes`), and may not
exceed the output's tolerance. An output that equals the expected number, rounded to its type, is always right, and so
are infinities and NaN where they are expected. Whole numbers are exact, or within a share of the largest one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import SeqtuneError
from seqtune.kernels.devices.element_types import ElementType, element_type
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.operations.tensor import Tensor, Tensors

from ..backends.backend import BuildError, LaunchError
from .sensitivity import Sensitivity, input_size, moved, step_for
from .typical_sizes import is_plain, typical_sizes

Arrays = Mapping[str, NDArray[Any]]
Recompute = Callable[[Operands], Arrays | None]  # expected outputs of other inputs; raises SeqtuneError, BuildError or
#                                                  LaunchError

MOST_TIMES = 10.0  # an error of 0.1 % of an fp32 element is none of rounding, unless terms are millions
LAMBDA = 8.0  # errors of sqrt(n) u times this do not occur in sums of n terms [Higham and Mary, section 3]


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """The rule of one output: its errors are relative to `sizes`, of the output's shape or one for all elements."""

    sizes: NDArray[np.float64]  # positive where the expected element is finite
    tolerance: float
    exact: bool = False  # whole numbers without a tolerance: any other number is wrong

    def errors(self, output: NDArray[Any], expected: NDArray[Any]) -> NDArray[np.float64]:
        """The error of each element; infinite where an infinity or NaN differs, or an exact number does."""
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            errors = np.asarray(np.abs(np.subtract(output, expected, dtype=np.float64)) / self.sizes)
        if not self.exact and errors.max(initial=0.0) <= self.tolerance > 0:  # nearly all outputs; false for NaN
            return errors
        with np.errstate(over="ignore"):
            equal = output == (expected.astype(output.dtype) if output.dtype.kind == "f" else expected)
        if output.dtype.kind == "f":
            equal |= np.isnan(output) & np.isnan(expected)
        errors[equal & ~(errors <= self.tolerance)] = 0.0
        errors[~equal & (np.isnan(errors) | (errors == 0))] = math.inf
        return errors


def error_rules(expected: Arrays, operands: Operands, tensors: Tensors,
                recompute: Recompute | None) -> dict[str, ErrorRule]:
    """The rule of each output. Expected outputs are computed again for moved inputs where they do not tell their sizes.

    `recompute` is None where nothing can compute them: the elements alone then tell the sizes.
    """
    inputs, step = input_size(operands, tensors), step_for(tensors)
    terms = max(1.0, sum(tensor.size for tensor in tensors.inputs.values()) / sum(
        tensor.size for tensor in tensors.outputs.values()))
    floats = {name: tensor for name, tensor in tensors.outputs.items() if element_type(tensor.dtype).is_float}
    again: tuple[Arrays, Arrays] | None = None
    if recompute is not None and not all(is_plain(expected[name], inputs * math.sqrt(terms)) for name in floats):
        again = _recomputed(expected, operands, tensors, recompute, step)
    rules = {name: _whole(expected[name], tensor) for name, tensor in tensors.outputs.items() if name not in floats}
    for name, tensor in floats.items():
        sensitivity = None if again is None else Sensitivity.of(expected[name], again[0][name], again[1][name], step)
        element = element_type(tensor.dtype)
        sizes = typical_sizes(expected[name], _adding_unit(element), inputs, terms, sensitivity)
        tolerance = _default_tolerance(element, terms) if tensor.tolerance is None else tensor.tolerance
        if tensor.compares_sum:
            sizes = np.maximum(np.linalg.norm(sizes), np.abs(finite_sum(expected[name])))
        if tolerance:
            sizes = np.maximum(sizes, _least(element) / tolerance)
        rules[name] = ErrorRule(sizes, tolerance)
    return rules


def finite_sum(array: NDArray[Any]) -> NDArray[Any]:
    """The sum of all finite elements, as an array of one float64."""
    return np.array([array.sum(dtype=np.float64, where=np.isfinite(array))])


def _recomputed(expected: Arrays, operands: Operands, tensors: Tensors, recompute: Recompute,
                step: float) -> tuple[Arrays, Arrays] | None:
    """The expected outputs with the inputs moved up and down; None if they cannot be computed."""
    results = []
    for signed in (step, -step):
        if (changed := moved(operands, tensors, signed)) is None:
            return None
        try:
            result = recompute(changed)
        except (SeqtuneError, BuildError, LaunchError):
            return None
        if result is None or any(result[name].shape != expected[name].shape for name in tensors.outputs):
            return None
        results.append(result)
    return results[0], results[1]


def _whole(expected: NDArray[Any], tensor: Tensor) -> ErrorRule:
    """The rule of whole numbers: relative to the largest one, or to the sum."""
    reference = finite_sum(expected) if tensor.compares_sum else expected
    largest = float(np.abs(reference.astype(np.float64)).max(initial=0.0)) or 1.0
    return ErrorRule(np.array(largest), tensor.tolerance or 0.0, exact=not tensor.tolerance)


def _default_tolerance(element: ElementType, terms: float) -> float:
    """The tolerance of a type, or more where an element is the sum of very many `terms` of its own.

    A size is about the root of the sum of squares, and the sum of absolute values at most sqrt(n) times that: n u
    covers partial sums that cancel later. It counts up to MOST_TIMES the type's tolerance, and sqrt(n) u beyond.
    """
    unit = LAMBDA * _adding_unit(element)
    return max(element.tolerance, min(unit * terms, MOST_TIMES * element.tolerance), unit * math.sqrt(terms))


def _adding_unit(element: ElementType) -> float:
    """The largest relative error of rounding to the type in which sums of the type are usually added."""
    adds = element_type(element.accumulator) if element.accumulator else element
    return adds.rounding or float(np.finfo(adds.stored).eps) / 2


def _least(element: ElementType) -> float:
    """The error of numbers near 0: devices may flush subnormal numbers to 0, but for those of fp16."""
    if element.name == "fp16":
        return float(np.finfo(np.float16).smallest_subnormal)
    return float(np.finfo(element.host).smallest_normal)
