"""Memory of results: they share memory with operands, weights and each other where the model's do, and only there.

A program writes results into new memory. So PyTorch computes, at the end of a run, the results that are views of an
operand, of a weight or of another result, and it copies constants: a caller may change what it gets.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from ..lowering.partition import OWN_MEMORY, constants_of

aten = torch.ops.aten


def keep_memory_of_results(graph: fx.Graph) -> None:
    """Add the views and copies. The graph must be functional, except that it may copy values to operands at its end."""
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
