"""Partition: cuts an exported graph into segments, each of which becomes one program, and PyTorch's operations between.

An operation belongs to the first segment that its operands allow, so that the number of segments is the smallest for a
given set of translated operations.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload

from .graph_edits import EditedGraph
from .lowering import Lowering, UnknownOperationError, arguments
from .table import MAKERS

MOST_FOLDED = 1 << 26  # maximum number of elements of a constant that is computed in advance: 256 MB
_LAST = 1 << 30  # the level of what runs after all segments
OWN_MEMORY = "seqtune_own_memory"  # marks, in `fx.Node.meta`, operations that make or share the memory of results
_SWITCHES = ("dropout_p", "train", "training")  # arguments of operations that draw nothing where these are 0 or False


def fold_constants(module: fx.GraphModule) -> None:
    """Compute all operations of constants now, except those that differ from run to run. The graph must be functional.

    Results are never constants themselves (`keep_memory_of_results`).
    """
    values: dict[fx.Node, Any] = {}
    graph = module.graph
    for node in constants_of(graph):
        if node.op == "get_attr":
            values[node] = operator.attrgetter(str(node.target))(module)
        elif all(read in values for read in node.all_input_nodes) and _is_small(node):
            args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = node.target(*args, **kwargs)  # type: ignore[operator]
    for number, (node, value) in enumerate(values.items()):
        if node.op == "call_function" and isinstance(value, Tensor) and any(user not in values for user in node.users):
            name = f"seqtune_constant_{number}"
            while hasattr(module, name):  # an earlier call used the name
                name += "_"
            module.register_buffer(name, value.detach(), persistent=False)
            with graph.inserting_before(node):
                constant = graph.get_attr(name)
            constant.meta = dict(node.meta)
            node.replace_all_uses_with(constant)
    for node in reversed(list(graph.nodes)):
        if node in values and not node.users:
            graph.erase_node(node)
    module.recompile()


def constants_of(graph: fx.Graph) -> dict[fx.Node, None]:
    """The values that depend on no operand and no random numbers, in order."""
    constants: dict[fx.Node, None] = {}
    for node in graph.nodes:
        if node.op == "get_attr" or (node.op == "call_function" and always_computes_the_same(node) and all(
                read in constants for read in node.all_input_nodes)):
            constants[node] = None
    return constants


def always_computes_the_same(node: fx.Node) -> bool:
    """Whether an operation of PyTorch has the same result for the same operands: it is not random, nor left empty."""
    if OWN_MEMORY in node.meta:
        return False
    if not isinstance(node.target, OpOverload):
        return getattr(node.target, "__module__", None) in ("_operator", "math")
    schema = node.target._schema
    return node.target.namespace in ("aten", "prims") and not schema.is_mutable and not is_random(node) \
        and "empty" not in schema.name


def is_random(node: fx.Node) -> bool:
    """Whether an operation draws random numbers."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    given = arguments(node)
    return all(given.get(name) not in (0, False) for name in _SWITCHES)


def _is_small(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return not isinstance(value, Tensor) or value.numel() <= MOST_FOLDED


def unknown_operations(module: fx.GraphModule, bf16: bool = False) -> dict[fx.Node, str]:
    """The operations that cannot be translated, with the reasons; without `bf16`, those that compute bf16 numbers, too.

    Translated values may be stored more precisely than the graph says: an fp32 network must round as it is written.
    """
    lowering = Lowering(module, MAKERS)
    reasons: dict[fx.Node, str] = {}
    for node in module.graph.nodes:
        if node.op == "output":
            continue
        try:
            if OWN_MEMORY in node.meta:
                raise UnknownOperationError("a result that shares memory, or is a copy of a constant")
            if not bf16 and _is_bf16(node):
                raise UnknownOperationError("it computes bf16 numbers in a network of fp32")
            lowering.translate(node)
        except UnknownOperationError as error:
            if node.op == "call_function":
                reasons[node] = str(error)
            with suppress(UnknownOperationError):  # PyTorch computes it
                lowering.values[node] = lowering.input(node)
    for node in reversed(list(module.graph.nodes)):
        if node.op == "call_function" and node not in reasons and lowering.indices(node) is not None \
                and any(user in reasons or user.op == "output" for user in node.users):
            reasons[node] = "whole numbers that are read outside of the program"
    return reasons


def _is_bf16(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return node.op == "call_function" and isinstance(value, Tensor) and value.dtype == torch.bfloat16


@dataclass(frozen=True, slots=True)
class Segment:
    """Operations that become one program: a graph of their own, its operands and results in the outer graph."""

    level: int  # the segment runs after PyTorch's operations of this and lower levels
    graph: fx.GraphModule
    operands: tuple[fx.Node, ...]
    results: tuple[fx.Node, ...]
    inside: frozenset[fx.Node]


def levels_of(module: fx.GraphModule, unknown: Mapping[fx.Node, str]) -> dict[fx.Node, int]:
    """The level of every operation: the number of segments that must run before it.

    Random numbers are drawn in the order of the graph, and operands are written at the end.
    """
    levels: dict[fx.Node, int] = {}
    drawn = 0
    for node in module.graph.nodes:
        ours = _is_ours(node, unknown)
        levels[node] = max((levels[read] + (not ours and _is_ours(read, unknown)) for read in node.all_input_nodes),
                           default=0)
        if _writes(node):
            levels[node] = _LAST
        elif is_random(node):
            drawn = levels[node] = max(drawn, levels[node])
    return levels


def _writes(node: fx.Node) -> bool:
    """Whether an operation writes an operand: a functional graph does so at its end, after all that reads it."""
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def segments_of(module: fx.GraphModule, unknown: Mapping[fx.Node, str]) -> list[Segment]:
    """The segments in an order of execution; views alone are no segment."""
    levels = levels_of(module, unknown)
    segments = []
    for level in sorted({levels[node] for node in levels if _is_ours(node, unknown)}):
        nodes = [node for node in module.graph.nodes if _is_ours(node, unknown) and levels[node] == level]
        if any(_computes(node) for node in nodes):
            segments.append(_segment(module, level, nodes))
    return segments


def _is_ours(node: fx.Node, unknown: Mapping[fx.Node, str]) -> bool:
    return node.op == "call_function" and node not in unknown


def _computes(node: fx.Node) -> bool:
    """Whether a node is more than a view: a segment of views alone stays PyTorch's."""
    return node.target is not operator.getitem and not _is_view(node)


def _is_view(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(
        argument.alias_info is not None and not argument.alias_info.is_write for argument in schema.arguments)


def _segment(module: fx.GraphModule, level: int, nodes: Sequence[fx.Node]) -> Segment:
    graph = fx.Graph()
    inside = frozenset(nodes)
    copies: dict[fx.Node, fx.Node] = {}
    operands = []
    for read in dict.fromkeys(read for node in nodes for read in node.all_input_nodes):
        if read in inside:
            continue
        if read.op == "get_attr":
            copies[read] = graph.get_attr(str(read.target))
        else:
            copies[read] = graph.placeholder(read.name)
            operands.append(read)
        copies[read].meta = dict(read.meta)
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    results = tuple(node for node in nodes if any(user not in inside for user in node.users))
    graph.output(tuple(copies[node] for node in results))
    return Segment(level, EditedGraph(module, graph), tuple(operands), results, inside)


def joined(module: fx.GraphModule, unknown: Mapping[fx.Node, str], segments: Sequence[Segment],
           programs: Sequence[torch.nn.Module]) -> fx.GraphModule:
    """The graph with a call of its program in place of each segment; programs return tuples of their results."""
    levels = levels_of(module, unknown)
    inside = {node for segment in segments for node in segment.inside}
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}

    def copy(level: int | None) -> None:
        for node in module.graph.nodes:
            if node not in copies and node not in inside and (
                    level is None or node.op in ("placeholder", "get_attr") or
                    (node.op != "output" and levels[node] <= level)):
                copies[node] = graph.node_copy(node, copies.__getitem__)

    for number, (segment, program) in enumerate(zip(segments, programs, strict=True)):
        copy(segment.level)
        name = f"seqtune_program_{number}"
        module.add_submodule(name, program)
        call = graph.call_module(name, tuple(copies[node] for node in segment.operands))
        for index, node in enumerate(segment.results):
            copies[node] = graph.call_function(operator.getitem, (call, index))
            copies[node].meta = dict(node.meta)
    copy(None)
    result = fx.GraphModule(module, graph)
    result.graph.eliminate_dead_code()
    result.delete_all_unused_submodules()
    result.recompile()
    return result
