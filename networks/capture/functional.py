"""Functional: rewrites an exported graph so that no operation changes a tensor, where this is certain to be right.

PyTorch does it for every graph by a second trace (`ExportedProgram.run_decompositions`), which takes longer than the
export itself. Most graphs only have activations and sums that are computed in place, in a tensor that nothing else
reads any more, or writes into slices of a new tensor: these become the operations that return a new tensor. An
operation that PyTorch computes by calling others becomes these where it may make a view; only its own part of the graph
is traced for this.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload

from ..lowering.graph_edits import insert_operation
from ..lowering.lowering import arguments
from ..lowering.table import MAKERS
from .composites import Composites, is_composite, sized_value

aten = torch.ops.aten
_DROP_OUTS = (aten.dropout.default, aten.dropout_.default)
_TRAINING = ("training", "train", "use_input_stats")  # arguments that let a normalisation keep its statistics
_ALIASING = getattr(torch.Tag, "maybe_aliasing_or_mutating", None)  # marks schemas that are wrong; not in PyTorch 2.6
_SAME = (*_DROP_OUTS, aten.pad.default, aten._unsafe_view.default)  # may share memory, which their schemas do not say


def make_functional(graph: fx.Graph, composites: Composites | None = None) -> bool:
    """Replace operations that work in place or may hide a view; False where a second trace is needed.

    Every change keeps the meaning of the graph, also if the result is False. `composites` has the traces so far.
    """
    composites = Composites() if composites is None else composites
    for node in _operations(graph):
        if node.target in _DROP_OUTS and not arguments(node)["train"]:
            (read,) = node.all_input_nodes
            node.replace_all_uses_with(read)
            graph.erase_node(node)
        elif writes_statistics(node) or (_makes_hidden_view(node.target) and not composites.replace(node)):
            return False
    for node in _operations(graph):
        if not isinstance(node.target, OpOverload):
            return False
        if node.target._schema.is_mutable and not _replace_slice_write(graph, node):
            form = _functional_form(node)
            if form is None or not _owns_its_memory(node.args[0], node):
                return False
            _replace(graph, node, form)
    graph.eliminate_dead_code()
    return True


def _operations(graph: fx.Graph) -> list[fx.Node]:
    return [node for node in graph.nodes if node.op == "call_function" and node.target is not operator.getitem]


def _makes_hidden_view(target: Any) -> bool:
    """Whether an operation calls others, perhaps one that makes a view; PyTorch's trace splits the same ones."""
    if not _is_untranslated_composite(target) or target._schema.is_mutable:
        return False
    return _ALIASING is None or _ALIASING in target.tags or any(
        argument.alias_info is not None for argument in target._schema.arguments)


def writes_statistics(node: fx.Node) -> bool:
    """Whether a normalisation writes its statistics into operands, which its schema does not say."""
    target = node.target
    if not isinstance(target, OpOverload) or target._schema.is_mutable or "_functional" in target._schema.name:
        return False
    given = arguments(node)
    return given.get("running_mean") is not None and any(given.get(name) for name in _TRAINING)


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
    return _is_untranslated_composite(node.target)


def _is_untranslated_composite(target: Any) -> bool:
    return isinstance(target, OpOverload) and target not in MAKERS and is_composite(target)


def _replace(graph: fx.Graph, node: fx.Node, form: OpOverload) -> None:
    """Compute a new tensor, which all later operations read."""
    written = node.args[0]
    assert isinstance(written, fx.Node)
    with graph.inserting_before(node):
        new = graph.call_function(form, node.args, dict(node.kwargs))
    new.meta = dict(node.meta)
    for user in [user for user in written.users if node < user]:
        user.replace_input_with(written, new)
    node.replace_all_uses_with(new)
    graph.erase_node(node)


_CONTENTS: dict[Any, Any] = {  # what writes into a slice -> what computes the slice's new content
    aten.fill_.Tensor: aten.fill.Tensor, aten.fill_.Scalar: aten.fill.Scalar, aten.copy_.default: aten.copy.default}
_SCATTERS: dict[Any, Any] = {  # what takes a slice -> what puts a new one in its place
    aten.slice.Tensor: aten.slice_scatter.default, aten.select.int: aten.select_scatter.default}


def _replace_slice_write(graph: fx.Graph, node: fx.Node) -> bool:
    """Replace a write into a slice (`mask[:, 2:5] = 1`) of a new tensor of which no other view is there yet.

    All later operations read the tensor with the slice's new content. Else False, without a change.
    """
    content = _CONTENTS.get(node.target)
    slices = [] if content is None or node.users or node.kwargs else _slices(node.args[0])
    base = slices[-1].args[0] if slices else None
    if not isinstance(base, fx.Node) or base.op != "call_function" or _may_share(base) \
            or any(user < node and user is not slices[-1] and _may_share(user) for user in base.users):
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
