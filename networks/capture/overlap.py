"""Shared memory: operands that may have elements in common, so that a change of one is a change of another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor


def share_memory(tensors: Sequence[Any], written: Iterable[int]) -> bool:
    """Whether the address range of a tensor whose index is in `written` overlaps that of another tensor.

    Other values than tensors have no memory.
    """
    ranges = [_addresses(x) if isinstance(x, Tensor) else (0, 0) for x in tensors]
    return any(begin < ranges[index][1] and ranges[index][0] < end for index in written
               for number, (begin, end) in enumerate(ranges) if number != index)


def _addresses(x: Tensor) -> tuple[int, int]:
    """The first address of a tensor's elements, and that behind the last; a tensor without elements has none."""
    if not x.numel():
        return 0, 0
    last = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    return x.data_ptr(), x.data_ptr() + (last + 1) * x.element_size()
