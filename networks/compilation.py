"""Compilation: from an exported model to a graph whose segments are programs.

Choices are predicted; a verifier measures the layers that may gain. A layer that PyTorch computes cuts a program in
two. Therefore PyTorch computes a layer only if the whole graph becomes faster by this, and the whole graph only if
PyTorch's form of the graph is clearly faster.
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
from .program.bound_kernels import KernelBinder
from .selection.choices import Choice
from .verification.peer_comparison import PeerComparison
from .verification.peer_graph import PeerForms
from .verification.verifier import NetworkVerifier

UNCOMPARED = "no time was left to compare the network with PyTorch's code"


def compile_graph(program: ExportedProgram, binder: KernelBinder,
                  choose: Callable[[Sequence[Tuned]], Sequence[Choice]], examples: Sequence[Any] = (),
                  comparison: PeerComparison | None = None, precision: str = "fp32",
                  verifier: NetworkVerifier | None = None, refused: list[str] | None = None) -> CompiledGraph | None:
    """Compile what `exported` returns; None where the graph has no layer that kernels compute.

    The reasons why PyTorch computes its layers are appended to `refused` then.

    A `verifier` measures the layers that may gain, and the network with their winners. A `comparison` compares the
    graph, on the examples, with the forms that PyTorch computes in part or as a whole.
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
    forms = comparison.forms(module, examples)
    if verifier is None:
        return _fastest_form(compiler, compiled, choose, comparison, forms)
    with verifier.stopwatch.running():
        compiled = verifier.verify(compiler, compiled, examples, forms.make)
        compiled = _fastest_form(compiler, compiled, choose, comparison, forms)
        if verifier.has_measured:
            assert compiled.verification is not None
            report = replace(compiled.verification, used=verifier.deadline.elapsed)
            compiled = replace(compiled, verification=report)
    return compiled


def _fastest_form(compiler: GraphCompiler, compiled: CompiledGraph,
                  choose: Callable[[Sequence[Tuned]], Sequence[Choice]], comparison: PeerComparison,
                  forms: PeerForms) -> CompiledGraph:
    """The form of the graph that is the fastest: ours, one in which PyTorch computes some layers, or PyTorch's."""
    digest, loaded = compiler.digest(compiled.choices), False
    if any(choice.slower for choice in compiled.choices):
        split = compiler.compile(choose, split=True)
        first = None if split is None else comparison.split_verdict(digest, compiled.graph, split.graph, forms.examples)
        loaded = first is not None and first.loaded
        if split is not None and first is not None and first.peer_wins:
            compiled = replace(split, verification=compiled.verification)
            digest = compiler.digest(split.choices)
    verdict, peer = comparison.verdict(digest, forms, compiled.graph)
    if verdict is not None and loaded:  # the form of ours that was compared may be the wrong one
        verdict = replace(verdict, loaded=True)
    if verdict is None and compiled.verification is not None:
        note = "; ".join(filter(None, (compiled.verification.note, UNCOMPARED)))
        return replace(compiled, verification=replace(compiled.verification, note=note,
                                                      loaded=compiled.verification.loaded or loaded))
    if peer is None:
        return replace(compiled, verdict=verdict)
    return replace(compiled, graph=peer, fallbacks=(("the whole network", str(verdict)),), verdict=verdict)
