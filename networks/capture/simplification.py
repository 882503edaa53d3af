"""Simplification: an exported graph without what its static shapes make unnecessary, with batches and own results.

Results share memory with operands, weights and each other where the model's do, and only there. A program writes
results into new memory. So PyTorch computes, at the end of a run, the results that are views of an operand, of a weight
or of another result, and it copies constants: a caller may change what it gets.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from ..lowering.graph_edits import insert_operation
from ..lowering.partition import OWN_MEMORY, constants_of

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


def keep_memory_of_results(graph: fx.Graph) -> None:
    """Add the views and copies of results. The graph must be functional; at its end it may copy values to operands."""
    end = graph.output_node()
    chains = [[result, *_bases(result)] for result in dict.fromkeys(end.all_input_nodes)]
    constants = constants_of(graph)
    shared = Counter(chain[-1] for chain in chains)
    written = {node.args[1]: node for node in graph.find_nodes(op="call_function", target=aten.copy_.default)}
    own: dict[fx.Node, fx.Node] = {}

    def insert(node: fx.Node, target: Any, args: Any, kwargs: Any) -> fx.Node:
        with graph.inserting_before(end):
            new = graph.call_function(target, args, kwargs)
        new.meta = {**node.meta, OWN_MEMORY: True}
        return new

    for *views, root in chains:
        if root.op == "call_function":
            if root in written:
                own[root] = written[root]
            elif root in constants:
                own[root] = own.get(root) or insert(root, aten.clone.default, (root,), {})
            elif shared[root] == 1:
                continue
        for view in reversed(views):
            if view not in own:
                args, kwargs = fx.map_arg((view.args, view.kwargs), lambda read: own.get(read, read))
                own[view] = insert(view, view.target, args, kwargs)
    end.args = fx.map_arg(end.args, lambda result: own.get(result, result))


def _bases(node: fx.Node) -> Iterator[fx.Node]:
    """The base of a view, the base of that if it is a view, too, and so on."""
    while (base := _base(node)) is not None:
        yield base
        node = base


def _base(node: fx.Node) -> fx.Node | None:
    """The operand of which an operation returns a view, or perhaps the operand itself; None for new memory."""
    if node.target is operator.getitem:
        read = node.args[0]
        assert isinstance(read, fx.Node)
        return read if _base(read) is not None else None
    if not isinstance(node.target, OpOverload) or node.target._schema.is_mutable or not any(
            result.alias_info is not None for result in node.target._schema.returns):
        return None
    read = node.args[0] if node.args else None
    return read if isinstance(read, fx.Node) else None
