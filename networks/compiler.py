"""compile_graph: from an exported model to a graph whose segments are programs.

All layers are chosen together, so that equal ones are predicted once. Where no kernel solves a layer, PyTorch's
operation computes it, and the segment of the graph around it is cut in two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from .capture.export import plain_graph
from .capture.simplification import give_batches, keep_memory_of_results, simplify
from .lowering.attention_forms import unify_attention
from .lowering.graph_edits import EditedGraph
from .lowering.lowering import short_name
from .lowering.partition import fold_constants, joined, segments_of, unknown_operations
from .lowering.table import LAYER_OPERATIONS
from .module import NetworkModule, SegmentNetwork
from .nodes import Layer, Tuned
from .peer_comparison import GraphVerdict, PeerComparison
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


def compile_graph(program: ExportedProgram, binder: KernelBinder,
                  choose: Callable[[Sequence[Tuned]], Sequence[Choice]], examples: Sequence[Any] = (),
                  comparison: PeerComparison | None = None, precision: str = "fp32",
                  refused: list[str] | None = None) -> CompiledGraph | None:
    """Compile what `exported` returns; None where the graph has no layer that kernels compute.

    The reasons why PyTorch computes its layers are appended to `refused` then.

    A `comparison` compares the graph, on the examples, with PyTorch's forms of it, and the faster one is returned.
    """
    module = plain_graph(program)
    simplify(module.graph)
    give_batches(module.graph)
    keep_memory_of_results(module.graph)
    fold_constants(module)
    compiled = _compiled(module, binder, choose, precision, refused)
    if compiled is None or comparison is None:
        return compiled
    verdict, peer = comparison.verdict(_digest(module, compiled.choices), module, compiled.graph, examples)
    if peer is None:
        return replace(compiled, verdict=verdict)
    return replace(compiled, graph=peer, fallbacks=(("the whole network", str(verdict)),), verdict=verdict)


def _compiled(plain: fx.GraphModule, binder: KernelBinder, choose: Callable[[Sequence[Tuned]], Sequence[Choice]],
              precision: str, refused: list[str] | None) -> CompiledGraph | None:
    """The graph with programs in it; `plain` stays as it is."""
    module = _copied(plain)
    bf16 = precision == "bf16" or has_bf16([*plain.parameters(), *plain.buffers()])  # asked for, or a weight's type
    unify_attention(module.graph)
    fold_constants(module)  # sums of masks
    unknown = unknown_operations(module, bf16)
    choices: list[Choice] = []
    while True:
        networks = [SegmentNetwork(segment, binder.device, precision) for segment in segments_of(module, unknown)]
        tuned = [node for network in networks for node in network.tuned]
        if not choices and not any(isinstance(node, Layer) for node in tuned):
            if refused is not None:
                refused.extend(dict.fromkeys(f"PyTorch computes {short_name(node)}: {reason}"
                                             for node, reason in unknown.items() if node.target in LAYER_OPERATIONS))
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
    modules = [NetworkModule(network, binder, configurations) for network in networks]
    graph = joined(module, unknown, [network.segment for network in networks], modules)
    return CompiledGraph(graph, tuple(choices), tuple((node.name, reason) for node, reason in unknown.items()),
                         tolerance=TOLERANCES["bf16" if bf16 else "fp32"], written=_written(plain.graph))


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
