"""Reference: seeded operands of a problem, and its result in float64 by the definition of its operation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.element_types import dtype_of, rounded
from seqtune.kernels.launches.implementation import Array
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem


def make_operands(problem: Problem, seed: int = 0) -> dict[str, Array]:
    """Make operands by name: normally distributed float32 numbers that the problem's element type can hold.

    Raises ProblemError if the operation has no reference.
    """
    generator = np.random.default_rng(seed)
    shapes = operation(problem.type).operands(problem)
    return {name: rounded(generator.standard_normal(shape, dtype=np.float32), dtype_of(problem))
            for name, shape in shapes.items()}


def reference(problem: Problem, operands: Operands) -> NDArray[np.float64]:
    """Compute the result in float64, in the problem's shape and layout."""
    return operation(problem.type).reference(problem, operands)
