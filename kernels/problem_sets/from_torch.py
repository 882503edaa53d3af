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
    """The operation that a torch.nn module computes; None if no operation recognises the module."""
    return next((work for work in operations() if work.is_module(module)), None)


def from_module(module: Any, input_shape: Sequence[int], **features: Value) -> Problem:
    """The problem that a torch.nn module solves on an input of this shape. Raises ProblemError.

    Shapes are in PyTorch's order: (N, C, H, W) for a Conv2d in both layouts. `layout="NHWC"` means channels_last.
    """
    work = operation_of(module)
    if work is None:
        raise ProblemError(f"a {type(module).__name__} is no layer that is known here")
    shape = tuple(int(size) for size in input_shape)
    return Problem.make(work.name, **{**work.features_of_module(module, shape), **features})
