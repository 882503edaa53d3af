"""assemble: the jobs of all nodes of a network, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

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
from . import jobs, moves, product_jobs
from .assembly import Assembly, BufferView
from .bound_kernels import KernelBinder

_MOVES: dict[type[Node], Callable[[Assembly, Any], BufferView]] = {
    Input: moves.operand_value, Constant: moves.constant_value, Rearranged: moves.rearrange, Padding: moves.pad,
    Concatenation: moves.concatenate}
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
