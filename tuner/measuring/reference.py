"""Reference: seeded operands of a problem, and its result in float64 by the definition of its operation.

Sums of products of whole numbers are exact in float64 up to 2**53.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.element_types import rounded
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem

from .tensor_limit import check_measurable


def make_operands(problem: Problem, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Make operands by name: normally distributed float32 numbers that the problem's element type can hold.

    Whole numbers are drawn evenly from the type's whole range. Raises ProblemError if the operation has no reference,
    UnpreparedMisuseError if one of them would be too large.
    """
    check_measurable(problem)
    generator = np.random.default_rng(seed)
    shapes, element = operation(problem.type).operands(problem), problem.element
    if element.is_float:
        return {name: rounded(generator.standard_normal(shape, dtype=np.float32), element.name)
                for name, shape in shapes.items()}
    limits = np.iinfo(element.stored)
    return {name: generator.integers(limits.min, limits.max, shape, element.stored.type, endpoint=True)
            for name, shape in shapes.items()}


def reference(problem: Problem, operands: Operands) -> NDArray[np.float64]:
    """Compute the result in float64, in the problem's shape and layout."""
    return operation(problem.type).reference(problem, operands)
