"""Export: a model as a functional graph of plain tensors, whose weights are attributes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.graph import CodeGen

from ..lowering.graph_edits import EditedGraph
from .composites import Composites
from .functional import make_functional, writes_statistics

_WEIGHTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_RESULTS = {OutputKind.USER_OUTPUT, OutputKind.USER_INPUT_MUTATION}


def exported(model: nn.Module, examples: tuple[Any, ...], composites: Composites | None = None) -> ExportedProgram:
    """The functional graph of a model. Raises exceptions of many kinds, because much code cannot be exported.

    `composites` traces the operations that PyTorch computes by calling others.
    """
    with warnings.catch_warnings(), _no_stack_traces():
        warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # PyTorch 2.13 warns about its own code
        program: ExportedProgram = torch.export.export(model, examples)
        kept = [given.arg.name for given in program.graph_signature.input_specs if given.kind is InputKind.CUSTOM_OBJ]
        if kept:  # such as a generator of random numbers that each call of the model makes anew
            raise ValueError(f"it has an object of Python in its graph: {kept[0]}")
        if make_functional(program.graph, composites):
            return program
        program = program.run_decompositions({})
        changed = sorted(program.graph_signature.buffers_to_mutate.values())
        if changed:
            raise ValueError(f"it changes its buffer {changed[0]}")
        keeping = [node.target for node in program.graph.nodes if writes_statistics(node)]
        if keeping:
            raise ValueError(f"{keeping[0]} changes its statistics")
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
