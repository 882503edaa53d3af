"""Compilation: from an exported model to a graph whose segments are programs.

Layers are chosen all at once, so that equal ones are predicted once. A layer whose operation PyTorch does better leaves
its segment, which then falls apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import fx
from torch.export import ExportedProgram
from torch.fx.graph import CodeGen

from seqtune.tuner.backends.llvm.bound_kernels import KernelBinder

from .network.nodes import Layer
from .network_module import NetworkModule, SegmentNetwork
from .partition import fold_constants, joined, segments_of, unknown_operations
from .saved_choices import Choice


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """The graph, the choice for every layer in order, and the reason why each other operation stayed PyTorch's."""

    graph: fx.GraphModule
    choices: tuple[Choice, ...]
    kept: tuple[tuple[str, str], ...]  # (name of the node, reason)


def compile_graph(program: ExportedProgram, binder: KernelBinder,
                  choose: Callable[[Sequence[Layer]], Sequence[Choice]]) -> CompiledGraph | None:
    """Compile an exported model; None where no layer can be computed."""
    module = _plain(program.run_decompositions({}).module(check_guards=False))
    fold_constants(module)
    unknown = unknown_operations(module)
    by_name = {node.name: node for node in module.graph.nodes}
    while True:
        networks = [SegmentNetwork(segment) for segment in segments_of(module, unknown)]
        layers = [layer for network in networks for layer in network.layers]
        if not layers:
            return None
        choices = choose(layers)
        left = [(layer, choice) for layer, choice in zip(layers, choices, strict=True) if choice.configuration is None]
        if not left:
            break
        for layer, _ in left:
            unknown[by_name[layer.origin]] = "PyTorch's own operation is faster, or no kernel solves it"
    configurations = {layer: choice.configuration for layer, choice in zip(layers, choices, strict=True)
                      if choice.configuration is not None}
    modules = [NetworkModule(network, binder, configurations) for network in networks]
    graph = joined(module, unknown, [network.segment for network in networks], modules)
    kept = tuple((node.name, reason) for node, reason in unknown.items())
    return CompiledGraph(graph, tuple(choices), kept)


def _plain(module: fx.GraphModule) -> fx.GraphModule:
    """The graph without the wrapping and checking of inputs and outputs, so that it takes plain tensors."""
    module.graph.set_codegen(CodeGen())
    return fx.GraphModule(module, module.graph)
