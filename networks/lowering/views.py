"""Translations of operations that compute nothing: views, concatenations, copies, padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from ..nodes import Concatenation, Node, Padding, Rearranged, indices_view
from ..plan.precision import NAMES
from .lowering import Lowering, Maker, UnknownOperationError, arguments, axis_of, shape_of
from .resampling import padded_with_itself

aten = torch.ops.aten


def _same(lowering: Lowering, node: fx.Node) -> Any:
    """The value itself, for copies and for conversions of type or memory format that change nothing."""
    given = arguments(node)
    if given.get("train") or node.meta["val"].dtype not in NAMES or given.get("dtype") not in (None, *NAMES):
        raise UnknownOperationError("another type, or a drop-out that trains")
    first = node.args[0]
    assert isinstance(first, fx.Node)
    value = lowering.values[first]
    return lowering.value(first) if isinstance(value, Node) else value


def _reshape(lowering: Lowering, node: fx.Node) -> Node:
    indices = lowering.indices(node.args[0])
    if indices is not None:
        return _reshape_indices(lowering, indices, shape_of(node, (torch.int64,)))
    return lowering.add_reshaped(lowering.value(node.args[0]), shape_of(node))


def _reshape_indices(lowering: Lowering, indices: Node, shape: tuple[int, ...]) -> Node:
    result = Rearranged(shape, [indices], lambda view: view.reshaped(shape), reshapes=True)
    if indices_view(result) is None:
        raise UnknownOperationError("whole numbers that would have to be copied")
    return lowering.add(result)


def _permute(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    axes = list(range(len(lowering.value(given["self"]).shape)))
    if "dims" in given:
        axes = [axis_of(axis, len(axes)) for axis in given["dims"]]
    else:
        first, second = (axis_of(given.get(name, axis), len(axes)) for axis, name in enumerate(("dim0", "dim1")))
        axes[first], axes[second] = axes[second], axes[first]
    order, back = tuple(axes), tuple(axes.index(axis) for axis in range(len(axes)))
    return lowering.add(Rearranged(shape_of(node), [lowering.value(given["self"])], lambda view: view.permuted(order),
                                   inverse=lambda view: view.permuted(back)))


def _expand(lowering: Lowering, node: fx.Node) -> Node:
    shape = shape_of(node)
    return lowering.add_view(lowering.value(node.args[0]), shape, lambda view: view.expanded(shape))


def _slice(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    x = lowering.value(given["self"])
    axis = axis_of(given["dim"], len(x.shape))
    begin, end, _ = slice(given["start"], given["end"]).indices(x.shape[axis])
    shape_of(node)  # raises for an empty slice
    return lowering.add_slice(x, axis, begin, end, given["step"])


def _select(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    x = lowering.value(given["self"])
    axis, shape = axis_of(given["dim"], len(x.shape)), shape_of(node)
    return _selected(lowering, x, axis, given["index"] % x.shape[axis], shape)


def _selected(lowering: Lowering, x: Node, axis: int, index: int, shape: Sequence[int]) -> Node:
    """The elements at one index of an axis, without the axis."""
    return lowering.add_view(x, shape, lambda view: view.sliced(axis, index, index + 1).reshaped(shape))


def _split(lowering: Lowering, node: fx.Node) -> tuple[Node, ...]:
    given = arguments(node)
    x = lowering.value(given["self"])
    axis = axis_of(given["dim"], len(x.shape))
    size = -(-x.shape[axis] // given["chunks"]) if "chunks" in given else given.get("split_size")
    sizes: list[int] = given["split_sizes"] if size is None else [
        min(size, x.shape[axis] - begin) for begin in range(0, x.shape[axis], size)]
    parts, begin = [], 0
    for size in sizes:
        parts.append(lowering.add_slice(x, axis, begin, begin + size))
        begin += size
    return tuple(parts)


def _unbind(lowering: Lowering, node: fx.Node) -> tuple[Node, ...]:
    given = arguments(node)
    x = lowering.value(given["self"])
    axis = axis_of(given["dim"], len(x.shape))
    shape = (*x.shape[:axis], *x.shape[axis + 1:])
    return tuple(_selected(lowering, x, axis, index, shape) for index in range(x.shape[axis]))


def _concatenate(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    parts = [lowering.value(part) for part in given["tensors"] if not _is_empty(lowering, part)]
    shape = shape_of(node)
    if any(len(part.shape) != len(shape) for part in parts):
        raise UnknownOperationError("parts of different numbers of axes")
    return parts[0] if len(parts) == 1 else lowering.add(Concatenation(shape, parts, axis_of(given["dim"], len(shape))))


def _stack(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    shape = shape_of(node)
    axis = axis_of(given["dim"], len(shape))
    part = (*shape[:axis], 1, *shape[axis + 1:])
    parts = [lowering.add_reshaped(value, part) for value in map(lowering.value, given["tensors"])]
    return lowering.add(Concatenation(shape, [*parts], axis))


def _is_empty(lowering: Lowering, part: Any) -> bool:
    """Whether a part is a constant without elements, such as a cache of keys before its first token."""
    value = lowering.values.get(part)
    return isinstance(value, torch.Tensor) and not value.numel()


def _roll(lowering: Lowering, node: fx.Node) -> Node:
    """The last elements of every axis, as many as the shift says, before the first ones."""
    given = arguments(node)
    value, shape = lowering.value(given["self"]), shape_of(node)
    if len(given["dims"]) != len(given["shifts"]):
        raise UnknownOperationError("a roll of all elements as one row")
    for shift, dim in zip(given["shifts"], given["dims"], strict=True):
        axis = axis_of(dim, len(shape))
        size = shape[axis]
        begin = (size - shift) % size
        if begin == 0:
            continue
        parts = [lowering.add_slice(value, axis, *part) for part in ((begin, size), (0, begin))]
        value = lowering.add(Concatenation(shape, parts, axis))
    return value


def _pad(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    if given.get("mode", "constant") != "constant":
        return padded_with_itself(lowering, node)
    value = lowering.value(given["self"])
    axes = len(value.shape)
    widths = [*given["pad"], *[0] * (2 * axes - len(given["pad"]))]
    low, high = ([widths[2 * (axes - 1 - axis) + side] for axis in range(axes)] for side in (0, 1))
    for axis in range(axes):
        if low[axis] < 0 or high[axis] < 0:
            begin, end = max(0, -low[axis]), value.shape[axis] - max(0, -high[axis])
            if end <= begin:
                raise UnknownOperationError("padding that removes everything")
            value = lowering.add_slice(value, axis, begin, end)
    low, high = ([max(0, width) for width in side] for side in (low, high))
    if not any((*low, *high)):
        return value
    return lowering.add(Padding(shape_of(node), [value], tuple(low), tuple(high), float(given.get("value") or 0.0)))


_RESHAPES = (aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.flatten.using_ints,
             aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default,
             aten.unflatten.int)
_COPIES = (aten.clone.default, aten.contiguous.default, aten.alias.default, aten.detach.default, aten.dropout.default,
           aten.to.dtype, aten.to.dtype_layout, aten.type_as.default, aten._to_copy.default,
           aten.lift_fresh_copy.default)
VIEWS: dict[Any, Maker] = {
    **dict.fromkeys(_RESHAPES, _reshape), **dict.fromkeys(_COPIES, _same),
    aten.permute.default: _permute, aten.transpose.int: _permute, aten.t.default: _permute,
    aten.expand.default: _expand, aten.slice.Tensor: _slice, aten.select.int: _select,
    aten.split.Tensor: _split, aten.chunk.default: _split, aten.split_with_sizes.default: _split,
    aten.cat.default: _concatenate, aten.unbind.int: _unbind,
    aten.stack.default: _stack,
    aten.roll.default: _roll, aten.pad.default: _pad, aten.constant_pad_nd.default: _pad,
}
