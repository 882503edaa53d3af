"""Composites: replaces operations that PyTorch computes by calling others, such as swapaxes, by those others.

Only the operation is traced, on tensors without numbers. A trace of the whole graph (`run_decompositions`) finds the
same operations, and takes longer than the export itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch._subclasses import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx


def is_composite(target: OpOverload) -> bool:
    """Whether PyTorch computes the operation by calling others, whatever the device."""
    name: str = target.name()  # type: ignore[no-untyped-call]
    try:
        return torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
    except RuntimeError:  # the dispatcher does not know the operation
        return True


def sized_value(node: fx.Node) -> FakeTensor | None:
    """The tensor without numbers that stands for a result; None for no tensor, or one of sizes that a run decides."""
    value = node.meta.get("val")
    return value if isinstance(value, FakeTensor) and all(type(size) is int for size in value.shape) else None


class Composites:
    """Replaces composite operations of one graph. Operations that differ in their operands' numbers are traced once."""

    def __init__(self, make_graph: Callable[..., Any] = make_fx) -> None:
        self.traces: dict[tuple[Any, str], fx.Graph | None] = {}  # operation and arguments -> its parts
        self._make_graph = make_graph

    def replace(self, node: fx.Node) -> bool:
        """Put the operations that the node calls in its place; False, without a change, where that is impossible."""
        values: dict[fx.Node, FakeTensor] = {}
        for read in node.all_input_nodes:
            value = sized_value(read)
            if value is None:
                return False
            values[read] = value
        forms = {read: (index, value.shape, value.stride(), value.storage_offset(), value.dtype, value.device,
                        value.layout, value.requires_grad) for index, (read, value) in enumerate(values.items())}
        key = (node.target, repr(fx.map_arg((node.args, node.kwargs), lambda read: str(forms[read]))))
        if key not in self.traces:
            self.traces[key] = _trace(node, values, self._make_graph)
        trace = self.traces[key]
        return trace is not None and _insert(trace, node)


def _trace(node: fx.Node, values: Mapping[fx.Node, FakeTensor], make_graph: Callable[..., Any]) -> fx.Graph | None:
    """The operations that a composite one calls; None where they cannot be traced, or write into tensors."""
    def call(*tensors: FakeTensor) -> Any:
        given = dict(zip(values, tensors, strict=True))
        args, kwargs = fx.map_arg((node.args, node.kwargs), given.__getitem__)
        return node.target.decompose(*args, **kwargs)  # type: ignore[union-attr]

    try:
        graph: fx.Graph = make_graph(call)(*values.values()).graph
    except Exception:  # an operation may be anybody's code; PyTorch's trace of the whole graph says what it cannot do
        return None
    graph.eliminate_dead_code()
    return graph if all(_is_plain(inner) for inner in graph.nodes) else None


def _is_plain(node: fx.Node) -> bool:
    if node.op in ("placeholder", "output"):
        return True
    return node.op == "call_function" and (node.target is operator.getitem or (
        isinstance(node.target, OpOverload) and not node.target._schema.is_mutable))


def _insert(trace: fx.Graph, node: fx.Node) -> bool:
    """Copy a trace to the place of the node, whose users read its results."""
    (results,) = trace.output_node().args
    users = list(node.users)
    if isinstance(results, tuple | list):
        if not all(user.target is operator.getitem and isinstance(results[user.args[1]], fx.Node)  # type: ignore[index]
                   for user in users):
            return False
    elif not isinstance(results, fx.Node):
        return False
    copies: dict[fx.Node, fx.Node] = dict(zip(trace.find_nodes(op="placeholder"), node.all_input_nodes, strict=True))
    with node.graph.inserting_before(node):
        for inner in [inner for inner in trace.nodes if inner.op == "call_function"]:
            copies[inner] = node.graph.node_copy(inner, copies.__getitem__)
    if isinstance(results, fx.Node):
        node.replace_all_uses_with(copies[results])
    else:
        for user in users:
            user.replace_all_uses_with(copies[results[user.args[1]]])  # type: ignore[index]
            node.graph.erase_node(user)
    node.graph.erase_node(node)
    return True
