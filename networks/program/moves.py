"""Moves: nodes that compute nothing. Each becomes a view of memory, or a copy where that is unavoidable."""

from __future__ import annotations

import numpy as np

from ..nodes import Concatenation, Constant, Input, Padding, Rearranged
from ..steps.view import View
from .assembly import Assembly, BufferView, new_buffer


def operand_value(assembly: Assembly, node: Input) -> BufferView:
    """The operand of the program."""
    return new_buffer(View(node.shape, node.strides, 0, node.element), "operand", node.index)


def constant_value(assembly: Assembly, node: Constant) -> BufferView:
    """The constant's own memory."""
    return assembly.constant(View.contiguous(node.shape), node.array)


def rearrange(assembly: Assembly, node: Rearranged) -> BufferView:
    """Another view of the input's memory, or of a copy."""
    x = assembly.values[node.inputs[0]]
    view = node.transform(x.view)
    if view is not None:
        return BufferView(x.buffer, view)
    own = assembly.layouts.own(node)
    inside = own.reshaped(x.view.shape) if node.reshapes else None
    if inside is not None:  # written in the layout that the result should have
        y = new_buffer(own)
        assembly.copy(x, BufferView(y.buffer, inside))
        return y
    y = new_buffer(View.contiguous(x.view.shape, 0, x.view.element))
    assembly.copy(x, y)
    view = node.transform(y.view)
    assert view is not None  # a contiguous value has every view
    return BufferView(y.buffer, view)


def pad(assembly: Assembly, node: Padding) -> BufferView:
    """A buffer of its own that holds the border all the time; every run copies the value into its middle."""
    view = assembly.layouts.own(node)
    y = assembly.constant(view, np.full(view.extent, node.number, np.float32))
    inside = view
    for axis, (low, size) in enumerate(zip(node.low, node.inputs[0].shape, strict=True)):
        inside = inside.sliced(axis, low, low + size)
    assembly.copy(assembly.values[node.inputs[0]], BufferView(y.buffer, inside))
    return y


def concatenate(assembly: Assembly, node: Concatenation) -> BufferView:
    """The memory that most parts were written to already; the others are copied there."""
    y = assembly.destination(node)
    begin = 0
    for part in node.inputs:
        end = begin + part.shape[node.axis]
        x, target = assembly.values[part], BufferView(y.buffer, y.view.sliced(node.axis, begin, end))
        if x != target:
            assembly.copy(x, target)
        begin = end
    return y
