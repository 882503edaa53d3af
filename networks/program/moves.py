"""Moves: nodes that compute nothing: they are found in memory, or copied where that is unavoidable."""

from __future__ import annotations

import numpy as np

from ..nodes import Concatenation, Constant, Input, Padding, Rearranged
from ..steps.view import View
from .assembly import Assembly, Located, placed


def locate_input(assembly: Assembly, node: Input) -> Located:
    """The operand of the program."""
    return placed(View(node.shape, node.strides, 0, node.element), "operand", node.index)


def locate_constant(assembly: Assembly, node: Constant) -> Located:
    """The constant's own memory."""
    return assembly.constant(View.contiguous(node.shape), node.array)


def rearrange(assembly: Assembly, node: Rearranged) -> Located:
    """Another view of the input's memory, or of a copy."""
    x = assembly.located[node.inputs[0]]
    view = node.transform(x.view)
    if view is not None:
        return Located(x.buffer, view)
    own = assembly.layouts.own(node)
    inside = own.reshaped(x.view.shape) if node.reshapes else None
    if inside is not None:  # written in the layout that the result should have
        place = assembly.fresh(own)
        assembly.copy(x, Located(place.buffer, inside))
        return place
    place = assembly.fresh(View.contiguous(x.view.shape, 0, x.view.element))
    assembly.copy(x, place)
    view = node.transform(place.view)
    assert view is not None  # a contiguous value has every view
    return Located(place.buffer, view)


def pad(assembly: Assembly, node: Padding) -> Located:
    """A buffer of its own that holds the border all the time; every run copies the value into its middle."""
    view = assembly.layouts.own(node)
    place = assembly.constant(view, np.full(view.extent, node.number, np.float32))
    inside = view
    for axis, (low, size) in enumerate(zip(node.low, node.inputs[0].shape, strict=True)):
        inside = inside.sliced(axis, low, low + size)
    assembly.copy(assembly.located[node.inputs[0]], Located(place.buffer, inside))
    return place


def concatenate(assembly: Assembly, node: Concatenation) -> Located:
    """The place that most parts were written to already; the others are copied there."""
    y = assembly.destination(node)
    begin = 0
    for part in node.inputs:
        end = begin + part.shape[node.axis]
        x, place = assembly.located[part], Located(y.buffer, y.view.sliced(node.axis, begin, end))
        if (x.buffer, x.view) != (place.buffer, place.view):
            assembly.copy(x, place)
        begin = end
    return y
