"""GraphCompiler: compiles one graph with given choices for its layers. The graph itself is not changed.

All layers are chosen together, so that equal ones are predicted once. Where no kernel solves a layer, PyTorch's
operation computes it, and the segment of the graph around it is cut in two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx

from .lowering.attention_forms import unify_attention
from .lowering.graph_edits import EditedGraph
from .lowering.lowering import short_name
from .lowering.partition import fold_constants, joined, segments_of, unknown_operations
from .lowering.table import LAYER_OPERATIONS
from .module import NetworkModule, SegmentNetwork
from .nodes import Layer, Tuned
from .peer_comparison import GraphVerdict
from .plan.precision import TOLERANCES, has_bf16
from .program.bound_kernels import KernelBinder
from .selection.choices import Choice

UNSOLVED = "no kernel solves it, or the saved choice leaves it to PyTorch"


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """The graph, the choices for its layers in order, and the reason why PyTorch computes each other operation."""

    graph: Any  # an fx.GraphModule, or a PeerGraph where that is faster
    choices: tuple[Choice, ...]
    fallbacks: tuple[tuple[str, str], ...]  # (name of a node that PyTorch computes, reason)
    verdict: GraphVerdict | None = None  # where it was compared as a whole
    tolerance: float = TOLERANCES["fp32"]  # the largest allowed difference of results, relative to their largest
    written: tuple[int, ...] = ()  # indices of the operands that a run writes at its end; they must share no memory

    @property
    def loaded(self) -> bool:
        """Whether other work had much of the machine while the graph was measured."""
        return self.verdict is not None and self.verdict.loaded


@dataclass(frozen=True, slots=True)
class GraphCompiler:
    """A plain graph, the device's binder, and the precision in which layers are computed."""

    module: fx.GraphModule
    binder: KernelBinder
    precision: str
    refused: list[str] = field(default_factory=list)  # why PyTorch computes layers, where `compile` returned None

    def compile(self, choose: Callable[[Sequence[Tuned]], Sequence[Choice]]) -> CompiledGraph | None:
        """Compile the graph; None where it has no layer that kernels compute."""
        module = _copied(self.module)
        unify_attention(module.graph)
        fold_constants(module)  # sums of masks
        unknown = unknown_operations(module, self.computes_bf16())
        choices: list[Choice] = []
        while True:
            networks = [SegmentNetwork(segment, self.binder.device, self.precision)
                        for segment in segments_of(module, unknown)]
            tuned = [node for network in networks for node in network.tuned]
            if not choices and not any(isinstance(node, Layer) for node in tuned):
                self.refused.extend(dict.fromkeys(
                    f"PyTorch computes {short_name(node)}: {reason}" for node, reason in unknown.items()
                    if node.target in LAYER_OPERATIONS))
                return None
            new = choose(tuned)
            known = {choice.problem for choice in choices}
            choices += [choice for choice in new if not choices or choice.problem not in known]
            left = {node.origin for node, choice in zip(tuned, new, strict=True) if choice.configuration is None}
            if not left:
                break
            unknown |= {node: UNSOLVED for node in module.graph.nodes if node.name in left}
        configurations = {node: choice.configuration for node, choice in zip(tuned, new, strict=True)
                          if choice.configuration is not None}
        modules = [NetworkModule(network, self.binder, configurations) for network in networks]
        graph = joined(module, unknown, [network.segment for network in networks], modules)
        return CompiledGraph(graph, tuple(choices), tuple((node.name, reason) for node, reason in unknown.items()),
                             tolerance=TOLERANCES["bf16" if self.computes_bf16() else "fp32"],
                             written=_written(self.module.graph))

    def computes_bf16(self) -> bool:
        """Whether bf16 was asked for, or is the type of a weight."""
        return self.precision == "bf16" or has_bf16([*self.module.parameters(), *self.module.buffers()])

    def digest(self, choices: Sequence[Choice]) -> str:
        """A digest of the graph with these choices."""
        return _digest(self.module, choices)


def _written(graph: fx.Graph) -> tuple[int, ...]:
    """The indices of the operands that are written."""
    written = {node.args[0] for node in graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)}
    return tuple(index for index, node in enumerate(graph.find_nodes(op="placeholder")) if node in written)


def _copied(module: fx.GraphModule) -> fx.GraphModule:
    """A copy of the graph, which may be changed, with the same tensors."""
    graph = fx.Graph()
    result = graph.graph_copy(module.graph, {})
    graph.output(result)
    return EditedGraph(module, graph)


def _digest(module: fx.GraphModule, choices: Sequence[Choice]) -> str:
    """A digest of a graph's operations, of the shapes of its operands and constants, and of the layers' choices."""
    parts = []
    for node in module.graph.nodes:
        value = attrgetter(str(node.target))(module) if node.op == "get_attr" else node.meta.get("val")
        form = (value.shape, value.stride(), value.dtype) if isinstance(value, Tensor) else ""
        parts.append(f"{node.name} {node.op} {node.target} {node.args} {node.kwargs} {form}")
    parts += [f"{choice.problem.key} {choice.configuration and choice.configuration.key}" for choice in choices]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
