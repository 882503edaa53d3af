"""Problems from PyTorch modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seqtune.errors import ProblemError

from ..operations.feature import Value
from ..operations.operation import Operation
from ..operations.table import operations
from ..problem import Problem


def operation_of(module: Any) -> Operation | None:
    """The operation that a torch.nn module computes; None where it is no module that an operation knows."""
    return next((work for work in operations() if work.is_module(module)), None)


def from_module(module: Any, input_shape: Sequence[int], **features: Value) -> Problem:
    """The problem that a torch.nn module solves on an input of that shape. Raises ProblemError.

    Shapes are PyTorch's: of a Conv2d (N, C, H, W) for both layouts; `layout="NHWC"` is its channels_last.
    """
    work = operation_of(module)
    if work is None:
        raise ProblemError(f"a {type(module).__name__} is no layer that is known here")
    shape = tuple(int(size) for size in input_shape)
    return Problem.make(work.name, **{**work.features_of_module(module, shape), **features})
