"""give_batches: convolutions and pooling of an image or sequence without a batch get a batch of one."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ..lowering.graph_edits import insert_operation

aten = torch.ops.aten
AXES: dict[Any, int] = {  # the axes of an operand without a batch
    **dict.fromkeys((aten.conv1d.default, aten.conv1d.padding, aten.conv_transpose1d.default, aten.max_pool1d.default,
                     aten.avg_pool1d.default, aten.adaptive_avg_pool1d.default), 2),
    **dict.fromkeys((aten.conv2d.default, aten.conv2d.padding, aten.conv_transpose2d.input, aten.max_pool2d.default,
                     aten.avg_pool2d.default, aten.adaptive_avg_pool2d.default, aten._adaptive_avg_pool2d.default), 3)}


def give_batches(graph: fx.Graph) -> None:
    """Add a first axis of one to the operands of such operations, and take it from their results."""
    for node in list(graph.nodes):
        if node.target not in AXES or len(node.args[0].meta["val"].shape) != AXES[node.target]:
            continue
        with graph.inserting_before(node):
            operand = insert_operation(graph, aten.unsqueeze.default, node.args[0], 0)
            batch = graph.call_function(node.target, (operand, *node.args[1:]), node.kwargs)
            batch.meta = {**node.meta, "val": node.meta["val"].unsqueeze(0)}
            result = insert_operation(graph, aten.squeeze.dim, batch, 0)
        node.replace_all_uses_with(result)
        graph.erase_node(node)
