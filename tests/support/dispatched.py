"""A dispatch of products as a result, without any measurement."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from seqtune.api.dispatching.results import Dispatched, Measured, OwnKernel, Served
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.predictor.dispatch.bound import Bounds, Losses
from seqtune.predictor.dispatch.members import MemberSet


def shape(m: int) -> Problem:
    return Problem.make("gemm", m=m, n=64, k=64)


def member(tile: int) -> Configuration:
    return Configuration.of("own.gemm", {"tile": tile})


def dispatched(goal: str = "mean") -> Dispatched:
    """Two kernels of three for five shapes; the word of a library in the rule would be HTML."""
    first, second, third = (member(tile) for tile in (1, 8, 64))
    losses = [Losses(first, min(first, 0.02), first < 0.1) for first in (0.0, 0.02, 0.3, 0.01, 0.0) * 2]
    return Dispatched(
        "gemm", "llvm:0", goal, (MemberSet((0,), 0.4, 0.4, 0.4), MemberSet((0, 1), 0.05, 0.08, 0.06),
                                 MemberSet((0, 1, 2), 0.048, 0.079, 0.055)),
        (Served(first, (shape(1), shape(2)), 0.25),
         Served(second, (shape(3), shape(64), shape(128), shape(512)), 0.75)),
        "if m > 2:\n    <b>1</b>\nelse:\n    0", {"rule": 0.07, "single": 0.4, "default": 0.6},
        Bounds.of(losses),
        (OwnKernel(shape(512), third, 1.8, True), OwnKernel(shape(3), third, 1.2, False)), (shape(2),),
        Measured(6, 10, 30, 20, True), (Path("out/dispatch.json"),), ("a note",))


def without_proof() -> Dispatched:
    """One kernel, of which nothing is known beside its times."""
    result = dispatched()
    return replace(result, curve=result.curve[:1], served=result.served[:1], bounds=None, deserving=(), unsure=())
