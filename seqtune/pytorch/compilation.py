"""Compilation: from an exported model to a graph whose segments are programs.

Layers are chosen all at once, so that equal ones are predicted once. A layer that stays PyTorch's leaves its segment,
which then falls apart. Therefore a layer that PyTorch computes faster is left to it only if the whole graph becomes
faster by this, and the whole graph is left to PyTorch only if its own form of the graph is clearly faster.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.graph import CodeGen

from seqtune.tuner.backends.llvm.bound_kernels import KernelBinder

from .export.functional import make_functional
from .graph_judge import GraphJudge, GraphVerdict, graph_digest
from .kept_layers import keep_layer
from .lowering.attention_forms import unify_attention
from .lowering.graph_edits import EditedGraph
from .lowering.simplification import simplify
from .lowering.unbatched import give_batches
from .network.nodes import Layer, Tuned
from .network_module import NetworkModule, SegmentNetwork
from .partition import fold_constants, joined, segments_of, unknown_operations
from .precisions import TOLERANCES, has_bf16
from .saved_choices import Choice

SLOWER = "PyTorch's own operation is faster, and so is the network with it"
UNSOLVED = "no kernel solves it, or PyTorch's own operation was saved as the faster one"
_WEIGHTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_RESULTS = {OutputKind.USER_OUTPUT, OutputKind.USER_INPUT_MUTATION}


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """The graph, the choices for its layers in order, and the reason why each other operation stayed PyTorch's."""

    graph: Any  # an fx.GraphModule, or a PeerGraph where that is faster
    choices: tuple[Choice, ...]
    kept: tuple[tuple[str, str], ...]  # (name of the node, reason)
    verdict: GraphVerdict | None = None  # where it was compared as a whole
    tolerance: float = TOLERANCES["fp32"]  # the largest allowed difference of results, relative to their largest
    written: tuple[int, ...] = ()  # the operands that a run changes, at its end: they must share no memory with others


def exported(model: nn.Module, examples: tuple[Any, ...]) -> ExportedProgram:
    """The functional graph of a model. Raises exceptions of many kinds, because much code cannot be exported."""
    with warnings.catch_warnings(), _no_stack_traces():
        warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # of PyTorch 2.13 about its own code
        program: ExportedProgram = torch.export.export(model, examples)
        if make_functional(program.graph):
            return program
        program = program.run_decompositions({})
        changed = sorted(program.graph_signature.buffers_to_mutate.values())
        if changed:
            raise ValueError(f"it changes its buffer {changed[0]}")
        return program


@contextmanager
def _no_stack_traces() -> Iterator[None]:
    """Let PyTorch note no line of the model's code for each operation: nothing here reads it.

    Noting it takes a quarter of an export's time. Earlier versions than 2.13 have no such setting.
    """
    before = getattr(fx.config, "do_not_emit_stack_traces", None)
    if before is None:
        yield
        return
    fx.config.do_not_emit_stack_traces = True
    try:
        yield
    finally:
        fx.config.do_not_emit_stack_traces = before


def compile_graph(program: ExportedProgram, binder: KernelBinder,
                  choose: Callable[[Sequence[Tuned]], Sequence[Choice]], examples: Sequence[Any] = (),
                  judge: GraphJudge | None = None, precision: str = "fp32") -> CompiledGraph | None:
    """Compile what `exported` returns; None where it has no layer that kernels compute.

    A `judge` compares the graph, on the examples, with the forms that PyTorch computes in part or as a whole.
    """
    module = plain_graph(program)
    simplify(module.graph)
    give_batches(module.graph)
    fold_constants(module)
    facts: dict[str, Any] = {"tolerance": TOLERANCES["bf16" if _computes_bf16(module, precision) else "fp32"],
                             "written": _written(module.graph)}
    compiled = _compiled(module, binder, choose, precision, split=False)
    if compiled is None or judge is None:
        return compiled and replace(compiled, **facts)
    digest = graph_digest(module, compiled.choices)
    if any(choice.slower for choice in compiled.choices):
        split = _compiled(module, binder, choose, precision, split=True)
        if split is not None and judge.splits(digest, compiled.graph, split.graph, examples):
            compiled, digest = split, graph_digest(module, split.choices)
    verdict, peer = judge.verdict(digest, module, compiled.graph, examples)
    if peer is None:
        return replace(compiled, verdict=verdict, **facts)
    return CompiledGraph(peer, compiled.choices, (("the whole network", str(verdict)),), verdict, **facts)


def _compiled(module: fx.GraphModule, binder: KernelBinder, choose: Callable[[Sequence[Tuned]], Sequence[Choice]],
              precision: str, split: bool) -> CompiledGraph | None:
    """Compile a graph, which is not changed. With `split`, layers that PyTorch computes faster stay PyTorch's."""
    module = _copied(module)
    unify_attention(module.graph)
    fold_constants(module)  # sums of masks
    unknown = unknown_operations(module, _computes_bf16(module, precision))
    choices: list[Choice] = []
    while True:
        networks = [SegmentNetwork(segment, binder.device, precision) for segment in segments_of(module, unknown)]
        tuned = [node for network in networks for node in network.tuned]
        if not choices and not any(isinstance(node, Layer) for node in tuned):
            return None
        new = [replace(choice, configuration=None) if split and choice.slower else choice for choice in choose(tuned)]
        known = {choice.problem for choice in choices}
        choices += [choice for choice in new if not choices or choice.problem not in known]
        kept = {node.origin: SLOWER if choice.slower else UNSOLVED
                for node, choice in zip(tuned, new, strict=True) if choice.configuration is None}
        if not kept:
            break
        for node in [node for node in module.graph.nodes if node.name in kept]:
            reason = kept[node.name]
            unknown[keep_layer(module, node, precision)] = reason
    configurations = {node: choice.configuration for node, choice in zip(tuned, new, strict=True)
                      if choice.configuration is not None}
    modules = [NetworkModule(network, binder, configurations) for network in networks]
    graph = joined(module, unknown, [network.segment for network in networks], modules)
    return CompiledGraph(graph, tuple(choices), tuple((node.name, reason) for node, reason in unknown.items()))


def _computes_bf16(module: fx.GraphModule, precision: str) -> bool:
    """Whether bf16 was asked for, or is the type of a weight."""
    return precision == "bf16" or has_bf16([*module.parameters(), *module.buffers()])


def _copied(module: fx.GraphModule) -> fx.GraphModule:
    """A graph with the same tensors, so that one may be changed."""
    graph = fx.Graph()
    result = graph.graph_copy(module.graph, {})
    graph.output(result)
    return EditedGraph(module, graph)


def plain_graph(program: ExportedProgram) -> fx.GraphModule:
    """The graph of plain tensors, whose weights are attributes: `ExportedProgram.module()` without wrapping and checks.

    The program may be used up.
    """
    signature = program.graph_signature
    if not {given.kind for given in signature.input_specs} <= {*_WEIGHTS, InputKind.USER_INPUT} or not {
            result.kind for result in signature.output_specs} <= _RESULTS:
        module = program.module(check_guards=False)
        module.graph.set_codegen(CodeGen())
        return EditedGraph(module, module.graph)
    tensors: dict[str, Any] = {}
    graph = program.graph
    for node, given in zip(graph.find_nodes(op="placeholder"), signature.input_specs, strict=True):
        if given.kind in _WEIGHTS:
            name = str(given.target)
            tensors[name] = program.state_dict[name] if name in program.state_dict else program.constants[name]
            with graph.inserting_before(node):
                weight = graph.create_node("get_attr", name)
            node.replace_all_uses_with(weight)
            weight.meta = node.meta
            graph.erase_node(node)
    _write_operands(program)
    return EditedGraph(tensors, graph)


def _write_operands(program: ExportedProgram) -> None:
    """Copy the new values of changed operands, which the graph returns before its results, to the operands.

    `ExportedProgram.module()` of PyTorch 2.13 does not find an operand that is named like one of Python's functions.
    """
    graph = program.graph
    operands = {node.name: node for node in graph.find_nodes(op="placeholder")}
    end = graph.output_node()
    results: list[Any] = []
    copies: dict[fx.Node, fx.Node] = {}
    for value, result in zip(end.args[0], program.graph_signature.output_specs, strict=True):
        if result.kind is OutputKind.USER_OUTPUT:
            results.append(value)
            continue
        assert isinstance(value, fx.Node)
        with graph.inserting_before(end):
            copies[value] = graph.call_function(torch.ops.aten.copy_.default, (operands[str(result.target)], value))
        copies[value].meta = dict(value.meta)
    if copies:
        end.args = (tuple(copies.get(value, value) for value in results),)


def _written(graph: fx.Graph) -> tuple[int, ...]:
    """The numbers of the operands that are written."""
    written = {node.args[0] for node in graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)}
    return tuple(number for number, node in enumerate(graph.find_nodes(op="placeholder")) if node in written)
