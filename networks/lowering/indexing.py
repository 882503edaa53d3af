"""Translations of indexing: elements along an axis that are selected, repeated or overwritten.

The indices are known before the run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx

from ..nodes import Concatenation, Node
from .lowering import Lowering, Maker, UnknownOperationError, arguments, axis_of, shape_of
from .resampling import chosen_rows

aten = torch.ops.aten


def _index_select(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    x, indices = lowering.value(given["self"]), _constant_indices(lowering, given["index"])
    if not x.shape:
        raise UnknownOperationError("a number without axes")
    axis = axis_of(given["dim"], len(x.shape))
    return lowering.add_reshaped(_selected(lowering, x, axis, indices.reshape(-1)), shape_of(node))


def _index(lowering: Lowering, node: fx.Node) -> Node:
    """Indices along one axis; negative ones count from its end."""
    given = arguments(node)
    x = lowering.value(given["self"])
    axes = [axis for axis, index in enumerate(given["indices"]) if index is not None]
    if len(axes) != 1:
        raise UnknownOperationError("indices along several axes")
    indices = _constant_indices(lowering, given["indices"][axes[0]])
    size = x.shape[axes[0]]
    return lowering.add_reshaped(_selected(lowering, x, axes[0], np.where(
        indices < 0, indices + size, indices).reshape(-1)), shape_of(node))


def _constant_indices(lowering: Lowering, argument: Any) -> NDArray[Any]:
    """The whole numbers of a constant."""
    value = lowering.values.get(argument)
    if not isinstance(value, Tensor) or value.dtype not in (torch.int64, torch.int32) or not value.numel():
        raise UnknownOperationError("indices that are computed")
    result: NDArray[Any] = value.numpy()
    return result


def _selected(lowering: Lowering, x: Node, axis: int, indices: NDArray[np.int64]) -> Node:
    """The elements at these indices: a view where they are evenly spaced, else one step that reads rows."""
    if indices.min() < 0 or indices.max() >= x.shape[axis]:
        raise UnknownOperationError("indices outside the axis")
    shape = (*x.shape[:axis], len(indices), *x.shape[axis + 1:])
    first, step = int(indices[0]), int(indices[1] - indices[0]) if len(indices) > 1 else 1
    if step > 0 and (indices == first + step * np.arange(len(indices))).all():
        return lowering.add_slice(x, axis, first, int(indices[-1]) + 1, step)
    if axis < len(shape) - 1:
        return chosen_rows(lowering, x, {axis: indices})
    if len(shape) == 1:
        column = chosen_rows(lowering, lowering.add_reshaped(x, (*x.shape, 1)), {0: indices})
        return lowering.add_reshaped(column, shape)
    order, back = (axis, *range(axis)), (*range(1, len(shape)), 0)
    return lowering.add_permuted(chosen_rows(lowering, lowering.add_permuted(x, order), {0: indices}), back)


def _repeat_interleave(lowering: Lowering, node: fx.Node) -> Node:
    """Each element several times, one after the other."""
    given = arguments(node)
    x, count, shape = lowering.value(given["self"]), given["repeats"], shape_of(node)
    if given["dim"] is None:
        x = lowering.add_reshaped(x, (math.prod(x.shape),)) if x.shape else x
    axis = 0 if given["dim"] is None else axis_of(given["dim"], len(x.shape))
    split, repeated = ((*x.shape[:axis + 1], times, *x.shape[axis + 1:]) for times in (1, count))
    parts = lowering.add_reshaped(x, split)
    return lowering.add_reshaped(lowering.add_expanded(parts, repeated), shape)


def _repeat(lowering: Lowering, node: fx.Node) -> Node:
    """The whole several times along each axis; new axes are the first ones."""
    given = arguments(node)
    x, times = lowering.value(given["self"]), given["repeats"]
    sizes = (*[1] * (len(times) - len(x.shape)), *x.shape)
    split, repeated = (tuple(number for pair in zip(first, sizes, strict=True) for number in pair)
                       for first in ([1] * len(sizes), times))
    parts = lowering.add_reshaped(x, split)
    return lowering.add_reshaped(lowering.add_expanded(parts, repeated), shape_of(node))


def _slice_scatter(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    x, new = lowering.value(given["self"]), lowering.value(given["src"])
    axis = axis_of(given["dim"], len(x.shape))
    begin, end, _ = slice(given["start"], given["end"]).indices(x.shape[axis])
    if given["step"] != 1:
        raise UnknownOperationError("a write with a step")
    return _replaced(lowering, x, new, axis, begin, end)


def _select_scatter(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    x, new = lowering.value(given["self"]), lowering.value(given["src"])
    axis = axis_of(given["dim"], len(x.shape))
    begin = given["index"] % x.shape[axis]
    part = (*x.shape[:axis], 1, *x.shape[axis + 1:])
    row = lowering.add_view(new, part, lambda view: view.reshaped(part))
    return _replaced(lowering, x, row, axis, begin, begin + 1)


def _replaced(lowering: Lowering, x: Node, new: Node, axis: int, begin: int, end: int) -> Node:
    """`new` at the indices from `begin` before `end` of an axis, and x around it.

    What is written several times, as in a loop, is one concatenation at the end.
    """
    if (begin, end) == (0, x.shape[axis]):
        return new
    parts: Sequence[Node] = x.inputs if isinstance(x, Concatenation) and x.axis == axis else [x]
    before, after, at = [], [], 0
    for part in parts:
        size = part.shape[axis]
        before += _cut(lowering, part, axis, 0, min(size, begin - at))
        after += _cut(lowering, part, axis, max(0, end - at), size)
        at += size
    return lowering.add(Concatenation(x.shape, [*before, new, *after], axis))


def _cut(lowering: Lowering, x: Node, axis: int, begin: int, end: int) -> list[Node]:
    """The elements from `begin` before `end`, nothing where there are none."""
    if begin >= end:
        return []
    if (begin, end) == (0, x.shape[axis]):
        return [x]
    return [lowering.add_slice(x, axis, begin, end)]


def _copied(lowering: Lowering, node: fx.Node) -> Node:
    """The second operand in the shape of the first one."""
    return lowering.add_expanded(lowering.value(node.args[1]), shape_of(node))


INDEXING: dict[Any, Maker] = {
    aten.index_select.default: _index_select, aten.index.Tensor: _index,
    aten.repeat_interleave.self_int: _repeat_interleave, aten.repeat.default: _repeat,
    aten.slice_scatter.default: _slice_scatter,
    aten.select_scatter.default: _select_scatter, aten.copy.default: _copied, aten.fill.Tensor: _copied,
}
