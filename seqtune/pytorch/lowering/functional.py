"""Functional: rewrites an exported graph so that no operation changes a tensor, where this is certain to be right.

PyTorch does it for every graph by a second trace (`ExportedProgram.run_decompositions`), which takes longer than the
export itself. Most graphs only have activations and sums that are computed in place, in a tensor that nothing else
reads any more: these become the operations that return a new tensor.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload

from .lowering import arguments
from .table import MAKERS

aten = torch.ops.aten
_DROP_OUTS = (aten.dropout.default, aten.dropout_.default)
_NORMS = (aten.batch_norm.default, aten.native_batch_norm.default)  # with `training` they write their statistics
_SAME = (*_DROP_OUTS, aten.pad.default, aten._unsafe_view.default)  # may share memory, which their schemas do not say


def make_functional(graph: fx.Graph) -> bool:
    """Replace the operations that work in place; False where a second trace is needed, also for unknown composite ones.

    Every change keeps the meaning of the graph, also if the result is False.
    """
    nodes = [node for node in graph.nodes if node.op == "call_function" and node.target is not operator.getitem]
    for node in nodes:
        if node.target in _DROP_OUTS and not arguments(node)["train"]:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
        elif not isinstance(node.target, OpOverload) or (node.target in _NORMS and arguments(node)["training"]):
            return False
        elif node.target._schema.is_mutable:
            form = _functional_form(node)
            if form is None or not _owns_its_memory(node.args[0], node):
                return False
            _replace(graph, node, form)
        elif _is_composite(node.target) and node.target not in MAKERS:
            return False
    graph.eliminate_dead_code()
    return True


def _functional_form(node: fx.Node) -> OpOverload | None:
    """The translated operation that returns what this one writes into its first operand, None if there is none.

    Translated ones return the type of their operands.
    """
    target: Any = node.target
    name, overload = target._schema.name.removeprefix("aten::"), target._overloadname
    is_written = [argument.alias_info is not None and argument.alias_info.is_write
                  for argument in target._schema.arguments]
    tensors = [read.meta.get("val") for read in node.all_input_nodes]
    if not name.endswith("_") or not is_written[0] or any(is_written[1:]) or len(
            {value.dtype for value in tensors if isinstance(value, Tensor)}) != 1:
        return None
    form = getattr(getattr(aten, name[:-1], None), overload, None)
    return form if isinstance(form, OpOverload) and form in MAKERS and not form._schema.is_mutable else None


def _owns_its_memory(written: Any, node: fx.Node) -> bool:
    """Whether an operand is a new tensor of which no other operation than the node makes a view."""
    if not isinstance(written, fx.Node) or written.op != "call_function" or _may_share(written):
        return False
    return not any(user is not node and _may_share(user) for user in written.users)


def _may_share(node: fx.Node) -> bool:
    """Whether a result may be a view of an operand, or the operand itself."""
    if not isinstance(node.target, OpOverload) or node.target in _SAME:
        return True
    if any(result.alias_info is not None for result in node.target._schema.returns):
        return True
    return _is_composite(node.target) and node.target not in MAKERS


def _is_composite(target: OpOverload) -> bool:
    """Whether PyTorch computes the operation by calling others, whatever the device."""
    name: str = target.name()  # type: ignore[no-untyped-call]
    try:
        return torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
    except RuntimeError:  # the dispatcher does not know the operation
        return True


def _replace(graph: fx.Graph, node: fx.Node, form: OpOverload) -> None:
    """Compute a new tensor, which all later operations read."""
    written = node.args[0]
    assert isinstance(written, fx.Node)
    with graph.inserting_before(node):
        new = graph.call_function(form, node.args, dict(node.kwargs))
    new.meta = dict(node.meta)
    order = {other: index for index, other in enumerate(graph.nodes)}
    for user in [user for user in written.users if order[user] > order[node]]:
        user.replace_input_with(written, new)
    node.replace_all_uses_with(new)
    graph.erase_node(node)
