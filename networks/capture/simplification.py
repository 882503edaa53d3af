"""simplify: removes from an exported graph what its static shapes make unnecessary."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

aten = torch.ops.aten
FILLED: dict[Any, int | None] = {  # operations that fill the shape of their operand; None: with their last argument
    aten.zeros_like.default: 0, aten.new_zeros.default: 0, aten.ones_like.default: 1, aten.new_ones.default: 1,
    aten.full_like.default: None, aten.new_full.default: None, aten.fill.Scalar: None}


def simplify(graph: fx.Graph) -> None:
    """Erase checks of types and empty parts of concatenations; tensors filled with one number become constants.

    The graph must be functional: nothing is written into these tensors.
    """
    for node in list(graph.nodes):
        if node.target is aten._assert_tensor_metadata.default:
            graph.erase_node(node)
        elif node.target in FILLED and all(isinstance(size, int) for size in node.meta["val"].shape):
            _become_constant(graph, node)
        elif node.target is aten.cat.default:
            parts = node.args[0]
            full = [part for part in parts if not _is_empty(part)]
            if 0 < len(full) < len(parts):
                node.update_arg(0, full)
    graph.eliminate_dead_code()


def _is_empty(node: fx.Node) -> bool:
    """Whether a value has no elements, whatever its sizes are that are not known before the run."""
    return any(isinstance(size, int) and size == 0 for size in node.meta["val"].shape)


def _become_constant(graph: fx.Graph, node: fx.Node) -> None:
    number, value = FILLED[node.target], node.meta["val"]
    with graph.inserting_before(node):
        full = graph.call_function(aten.full.default, (
            list(value.shape), node.args[-1] if number is None else number), {"dtype": value.dtype})
    full.meta = dict(node.meta)
    node.replace_all_uses_with(full)
    graph.erase_node(node)
