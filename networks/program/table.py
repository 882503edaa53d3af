"""assemble: the jobs of all nodes of a network, in order.

Some nodes compute nothing: each becomes a view of memory, or a copy where that is unavoidable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from seqtune.kernels.kernel import Configuration

from ..nodes import (
    AttentionHeads,
    Concatenation,
    Constant,
    Gather,
    Input,
    Layer,
    MovedRows,
    Node,
    Padding,
    Pointwise,
    Pool,
    Product,
    Rearranged,
    Reduction,
    RowOperation,
    Tuned,
)
from ..steps.view import View
from . import jobs, product_jobs
from .assembly import Assembly, BufferView, new_buffer
from .bound_kernels import KernelBinder


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


_MOVES: dict[type[Node], Callable[[Assembly, Any], BufferView]] = {
    Input: operand_value, Constant: constant_value, Rearranged: rearrange, Padding: pad, Concatenation: concatenate}
_JOBS: dict[type[Node], Callable[[Assembly, Any, BufferView], None]] = {
    Layer: jobs.append_layer, Product: product_jobs.append_product, AttentionHeads: jobs.append_attention,
    Pointwise: jobs.append_pointwise, RowOperation: jobs.append_rows, Reduction: jobs.append_reduction,
    Pool: jobs.append_pool, Gather: jobs.append_gather, MovedRows: jobs.append_moved_rows}


def assemble(nodes: Sequence[Node], results: Sequence[Node], result_views: Sequence[View],
             configurations: Mapping[Tuned, Configuration], binder: KernelBinder) -> Assembly:
    """The jobs of a network; `result_views`: shapes, strides and elements of PyTorch's results. Raises BuildError."""
    assembly = Assembly(nodes, results, result_views, configurations, binder)
    for node in nodes:
        move = _MOVES.get(type(node))
        if move is not None:
            assembly.values[node] = move(assembly, node)
        else:
            y = assembly.destination(node)
            _JOBS[type(node)](assembly, node, y)
            assembly.values[node] = y
    assembly.finish(results)
    return assembly
