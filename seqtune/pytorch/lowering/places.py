"""Translations of operations that choose or replace places along an axis, whose numbers are known before the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx

from ..network.nodes import Concatenation, Node
from .lowering import Lowering, Maker, UnknownOperationError, arguments, shape_of
from .resampling import chosen_rows

aten = torch.ops.aten


def _index_select(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    x, numbers = lowering.value(given["self"]), _numbers(lowering, given["index"])
    if not x.shape:
        raise UnknownOperationError("a number without axes")
    axis = given["dim"] % len(x.shape)
    if numbers.min() < 0:
        raise UnknownOperationError("numbers outside the axis")
    return lowering.add_reshaped(_chosen(lowering, x, axis, numbers.reshape(-1)), shape_of(node))


def _index(lowering: Lowering, node: fx.Node) -> Node:
    """Numbers for one axis; negative ones count from its end."""
    given = arguments(node)
    x = lowering.value(given["self"])
    axes = [axis for axis, index in enumerate(given["indices"]) if index is not None]
    if len(axes) != 1:
        raise UnknownOperationError("numbers for several axes")
    numbers = _numbers(lowering, given["indices"][axes[0]])
    size = x.shape[axes[0]]
    return lowering.add_reshaped(_chosen(lowering, x, axes[0], np.where(
        numbers < 0, numbers + size, numbers).reshape(-1)), shape_of(node))


def _numbers(lowering: Lowering, argument: Any) -> NDArray[Any]:
    """A constant of whole numbers."""
    value = lowering.values.get(argument)
    if not isinstance(value, Tensor) or value.dtype not in (torch.int64, torch.int32) or not value.numel():
        raise UnknownOperationError("numbers that are computed")
    result: NDArray[Any] = value.numpy()
    return result


def _chosen(lowering: Lowering, x: Node, axis: int, numbers: NDArray[np.int64]) -> Node:
    """The places of these numbers: a view where they are evenly apart, else one step that reads rows."""
    if numbers.min() < 0 or numbers.max() >= x.shape[axis]:
        raise UnknownOperationError("numbers outside the axis")
    shape = (*x.shape[:axis], len(numbers), *x.shape[axis + 1:])
    first, step = int(numbers[0]), int(numbers[1] - numbers[0]) if len(numbers) > 1 else 1
    if step > 0 and (numbers == first + step * np.arange(len(numbers))).all():
        return lowering.add_view(x, shape, lambda view: view.sliced(axis, first, int(numbers[-1]) + 1, step))
    if axis < len(shape) - 1:
        return chosen_rows(lowering, x, {axis: numbers})
    if len(shape) == 1:
        column = chosen_rows(lowering, lowering.add_reshaped(x, (*x.shape, 1)), {0: numbers})
        return lowering.add_reshaped(column, shape)
    order, back = (axis, *range(axis)), (*range(1, len(shape)), 0)
    turned = lowering.add_view(x, [x.shape[other] for other in order], lambda view: view.permuted(order))
    return lowering.add_view(chosen_rows(lowering, turned, {0: numbers}), shape, lambda view: view.permuted(back))


def _repeat_interleave(lowering: Lowering, node: fx.Node) -> Node:
    """Each place several times, one after the other."""
    given = arguments(node)
    x, count, shape = lowering.value(given["self"]), given["repeats"], shape_of(node)
    if given["dim"] is None:
        x = lowering.add_reshaped(x, (int(np.prod(x.shape)),)) if x.shape else x
    axis = 0 if given["dim"] is None else given["dim"] % len(x.shape)
    split, repeated = ((*x.shape[:axis + 1], times, *x.shape[axis + 1:]) for times in (1, count))
    parts = lowering.add_reshaped(x, split)
    return lowering.add_reshaped(
        lowering.add_view(parts, repeated, lambda view: view.expanded(repeated)), shape)


def _repeat(lowering: Lowering, node: fx.Node) -> Node:
    """The whole several times along each axis; new axes are the first ones."""
    given = arguments(node)
    x, times = lowering.value(given["self"]), given["repeats"]
    sizes = (*[1] * (len(times) - len(x.shape)), *x.shape)
    split, repeated = (tuple(number for pair in zip(first, sizes, strict=True) for number in pair)
                       for first in ([1] * len(sizes), times))
    parts = lowering.add_reshaped(x, split) if x.shape else lowering.add_view(
        x, split, lambda view: view.reshaped(split))
    return lowering.add_reshaped(
        lowering.add_view(parts, repeated, lambda view: view.expanded(repeated)), shape_of(node))


def _slice_scatter(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    x, new = lowering.value(given["self"]), lowering.value(given["src"])
    axis = given["dim"] % len(x.shape)
    begin, end, _ = slice(given["start"], given["end"]).indices(x.shape[axis])
    if given["step"] != 1:
        raise UnknownOperationError("places with others between them that stay")
    return _replaced(lowering, x, new, axis, begin, end)


def _select_scatter(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    x, new = lowering.value(given["self"]), lowering.value(given["src"])
    axis = given["dim"] % len(x.shape)
    begin = given["index"] % x.shape[axis]
    row = lowering.add_view(new, (*x.shape[:axis], 1, *x.shape[axis + 1:]), lambda view: view.reshaped(
        (*x.shape[:axis], 1, *x.shape[axis + 1:])))
    return _replaced(lowering, x, row, axis, begin, begin + 1)


def _replaced(lowering: Lowering, x: Node, new: Node, axis: int, begin: int, end: int) -> Node:
    """`new` in the places from `begin` before `end` of an axis, and x around it.

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
    """The places from `begin` before `end`, nothing where there are none."""
    if begin >= end:
        return []
    if (begin, end) == (0, x.shape[axis]):
        return [x]
    return [lowering.add_view(x, (*x.shape[:axis], end - begin, *x.shape[axis + 1:]),
                              lambda view: view.sliced(axis, begin, end))]


def _copied(lowering: Lowering, node: fx.Node) -> Node:
    """The second operand in the shape of the first one."""
    shape, x = shape_of(node), lowering.value(node.args[1])
    return x if x.shape == shape else lowering.add_view(x, shape, lambda view: view.expanded(shape))


PLACES: dict[Any, Maker] = {
    aten.index_select.default: _index_select, aten.index.Tensor: _index,
    aten.repeat_interleave.self_int: _repeat_interleave, aten.repeat.default: _repeat,
    aten.slice_scatter.default: _slice_scatter,
    aten.select_scatter.default: _select_scatter, aten.copy.default: _copied, aten.fill.Tensor: _copied,
}
