"""TensorLimit: how many elements each tensor of a measured problem may have. Predictions have no such limit."""

from __future__ import annotations

from seqtune.errors import ProblemError, UnpreparedMisuseError
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem

MOST_ELEMENTS = 1 << 31  # of one tensor; its reference in float64 has 16 GiB


def check_measurable(problem: Problem) -> None:
    """Check that every tensor is small enough to be made and compared. Raises UnpreparedMisuseError."""
    try:
        tensors = operation(problem.type).tensors(problem)
    except ProblemError:  # whoever makes the tensors says why
        return
    for name, tensor in (*tensors.inputs.items(), *tensors.outputs.items()):
        if tensor.size > MOST_ELEMENTS:
            raise UnpreparedMisuseError(
                f"{problem.brief()}: {name} has {tensor.size} elements, and a tensor that is measured has at most "
                f"{MOST_ELEMENTS} (2^31); `seqtune predict` answers where nothing is measured (without --verify)")
