"""Compilation: from an exported model to a graph whose segments are programs.

The choices are predicted; with a verifier, the layers that are worth it are measured. A layer that stays PyTorch's cuts
a program in two. Therefore a layer that PyTorch computes faster is left to it only if the whole graph becomes faster by
this, and the whole graph is left to PyTorch only if its own form of the graph is clearly faster.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.graph import CodeGen

from .capture.functional import make_functional
from .capture.simplification import simplify
from .capture.unbatched import give_batches
from .compiler import CompiledGraph, GraphCompiler
from .lowering.graph_edits import EditedGraph
from .lowering.partition import fold_constants
from .nodes import Tuned
from .program.bound_kernels import KernelBinder
from .selection.choices import Choice
from .verification.peer_comparison import GraphJudge
from .verification.peer_graph import PeerForms
from .verification.verifier import NetworkVerifier

UNJUDGED = "no time was left to compare the network with PyTorch's code"
_WEIGHTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_RESULTS = {OutputKind.USER_OUTPUT, OutputKind.USER_INPUT_MUTATION}


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
                  judge: GraphJudge | None = None, precision: str = "fp32",
                  verifier: NetworkVerifier | None = None) -> CompiledGraph | None:
    """Compile what `exported` returns; None where it has no layer that kernels compute.

    A `verifier` measures the layers that are worth it, and the network with their winners. A `judge` compares the
    graph, on the examples, with the forms that PyTorch computes in part or as a whole.
    """
    module = plain_graph(program)
    simplify(module.graph)
    give_batches(module.graph)
    fold_constants(module)
    compiler = GraphCompiler(module, binder, precision)
    compiled = compiler.compile(choose)
    if compiled is None or judge is None:
        return compiled
    forms = judge.forms(module, examples)
    if verifier is None:
        return _judged(compiler, compiled, choose, judge, forms)
    with verifier.stopwatch.running():
        compiled = verifier.verified(compiler, compiled, examples, forms.make)
        compiled = _judged(compiler, compiled, choose, judge, forms)
        if verifier.has_measured:
            assert compiled.verification is not None
            report = replace(compiled.verification, used=verifier.deadline.elapsed)
            compiled = replace(compiled, verification=report)
    return compiled


def _judged(compiler: GraphCompiler, compiled: CompiledGraph, choose: Callable[[Sequence[Tuned]], Sequence[Choice]],
            judge: GraphJudge, forms: PeerForms) -> CompiledGraph:
    """The form of the graph that is the fastest: ours, one in which PyTorch computes some layers, or PyTorch's."""
    digest = compiler.digest(compiled.choices)
    if any(choice.slower for choice in compiled.choices):
        split = compiler.compile(choose, split=True)
        if split is not None and judge.splits(digest, compiled.graph, split.graph, forms.examples):
            compiled = replace(split, verification=compiled.verification)
            digest = compiler.digest(split.choices)
    verdict, peer = judge.verdict(digest, forms, compiled.graph)
    if verdict is None and compiled.verification is not None:
        note = "; ".join(filter(None, (compiled.verification.note, UNJUDGED)))
        return replace(compiled, verification=replace(compiled.verification, note=note))
    if peer is None:
        return replace(compiled, verdict=verdict)
    return replace(compiled, graph=peer, kept=(("the whole network", str(verdict)),), verdict=verdict)


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
