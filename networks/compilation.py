"""Compilation: from an exported model to a graph whose segments are programs.

The kernels of layers are predicted. PyTorch computes the whole graph only if its form of the graph is clearly faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch.export import ExportedProgram

from .capture.export import plain_graph
from .capture.result_memory import keep_memory_of_results
from .capture.simplification import simplify
from .capture.unbatched import give_batches
from .compiler import CompiledGraph, GraphCompiler
from .lowering.partition import fold_constants
from .nodes import Tuned
from .peer_comparison import PeerComparison
from .program.bound_kernels import KernelBinder
from .selection.choices import Choice


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
    compiler = GraphCompiler(module, binder, precision, [] if refused is None else refused)
    compiled = compiler.compile(choose)
    if compiled is None or comparison is None:
        return compiled
    digest = compiler.digest(compiled.choices)
    verdict, peer = comparison.verdict(digest, module, compiled.graph, examples)
    if peer is None:
        return replace(compiled, verdict=verdict)
    return replace(compiled, graph=peer, fallbacks=(("the whole network", str(verdict)),), verdict=verdict)
