"""Compilation: from an exported model to a graph whose segments are programs.

Layers are chosen all at once, so that equal ones are predicted once. A layer whose operation PyTorch does better leaves
its segment, which then falls apart.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.export import ExportedProgram
from torch.fx.graph import CodeGen

from seqtune.tuner.backends.llvm.bound_kernels import KernelBinder

from .kept_layers import keep_layer
from .network.nodes import Layer, Tuned
from .network_module import NetworkModule, SegmentNetwork
from .partition import fold_constants, joined, segments_of, unknown_operations
from .precisions import has_bf16
from .saved_choices import Choice


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """The graph, the choices for its layers in order, and the reason why each other operation stayed PyTorch's."""

    graph: fx.GraphModule
    choices: tuple[Choice, ...]
    kept: tuple[tuple[str, str], ...]  # (name of the node, reason)


def exported(model: nn.Module, examples: tuple[Any, ...]) -> ExportedProgram:
    """The functional graph of a model. Raises exceptions of many kinds, because much code cannot be exported."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # of PyTorch 2.13 about its own code
        program: ExportedProgram = torch.export.export(model, examples).run_decompositions({})
        changed = sorted(program.graph_signature.buffers_to_mutate.values())
        if changed:
            raise ValueError(f"it changes its buffer {changed[0]}")
        return program


def compile_graph(program: ExportedProgram, binder: KernelBinder,
                  choose: Callable[[Sequence[Tuned]], Sequence[Choice]],
                  precision: str = "fp32") -> CompiledGraph | None:
    """Compile what `exported` returns; None where it has no layer that kernels compute."""
    module = _plain(program.module(check_guards=False))
    fold_constants(module)
    unknown = unknown_operations(module, precision == "bf16" or has_bf16([*module.parameters(), *module.buffers()]))
    choices: list[Choice] = []
    while True:
        networks = [SegmentNetwork(segment, binder.device, precision) for segment in segments_of(module, unknown)]
        tuned = [node for network in networks for node in network.tuned]
        if not choices and not any(isinstance(node, Layer) for node in tuned):
            return None
        new = choose(tuned)
        known = {choice.problem for choice in choices}
        choices += [choice for choice in new if not choices or choice.problem not in known]
        slower = [node.origin for node, choice in zip(tuned, new, strict=True) if choice.configuration is None]
        if not slower:
            break
        for node in [node for node in module.graph.nodes if node.name in slower]:
            unknown[keep_layer(module, node, precision)] = "PyTorch's own operation is faster, or no kernel solves it"
    configurations = {node: choice.configuration for node, choice in zip(tuned, new, strict=True)
                      if choice.configuration is not None}
    modules = [NetworkModule(network, binder, configurations) for network in networks]
    graph = joined(module, unknown, [network.segment for network in networks], modules)
    return CompiledGraph(graph, tuple(choices), tuple((node.name, reason) for node, reason in unknown.items()))


def _plain(module: fx.GraphModule) -> fx.GraphModule:
    """The graph without the wrapping and checking of inputs and outputs, so that it takes plain tensors."""
    module.graph.set_codegen(CodeGen())
    return fx.GraphModule(module, module.graph)
