"""Writes into slices: `mask[:, 2:5] = 1` becomes a new tensor, which all later operations read.

Models of windows build their masks this way, in many writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from ..lowering.graph_edits import insert_operation
from .composites import sized_value

aten = torch.ops.aten
_CONTENTS: dict[Any, Any] = {  # what writes into a slice -> what computes the slice's new content
    aten.fill_.Tensor: aten.fill.Tensor, aten.fill_.Scalar: aten.fill.Scalar, aten.copy_.default: aten.copy.default}
_SCATTERS: dict[Any, Any] = {  # what takes a slice -> what puts a new one in its place
    aten.slice.Tensor: aten.slice_scatter.default, aten.select.int: aten.select_scatter.default}


def replace_write(graph: fx.Graph, node: fx.Node, may_share: Callable[[fx.Node], bool]) -> bool:
    """Replace a write into a slice of a new tensor of which no other view is there yet; else False, without a change.

    `may_share` says whether an operation's result may be a view of an operand, or the operand itself.
    """
    content = _CONTENTS.get(node.target)
    slices = [] if content is None or node.users or node.kwargs else _slices(node.args[0])
    base = slices[-1].args[0] if slices else None
    if not isinstance(base, fx.Node) or base.op != "call_function" or may_share(base) \
            or any(user < node and user is not slices[-1] and may_share(user) for user in base.users):
        return False
    if any(sized_value(read) is None for taken in (node, *slices) for read in taken.all_input_nodes):
        return False
    with graph.inserting_before(node):
        written = insert_operation(graph, content, *node.args)
        for taken in slices:
            written = insert_operation(graph, _SCATTERS[taken.target], taken.args[0], written, *taken.args[1:])
    for user in [user for user in base.users if node < user]:
        user.replace_input_with(base, written)
    graph.erase_node(node)
    return True


def _slices(value: Any) -> list[fx.Node]:
    """The operations that take a slice of a slice, the last one first; none where something else reads one."""
    slices: list[fx.Node] = []
    while isinstance(value, fx.Node) and value.target in _SCATTERS:
        if len(value.users) != 1 or value.kwargs:
            return []
        slices.append(value)
        value = value.args[0]
    return slices
