"""Similarity: which problems are so alike that they must be on the same side of a split."""

from __future__ import annotations

from ..problem import Problem

NEAR = 1.25  # factor between two sizes that count as much the same


def near(a: Problem, b: Problem) -> bool:
    """Whether two problems are much the same: equal kind, every size within a factor of 1.25.

    Whoever learns from one of them all but knows the other, so they must not stand on both sides of a split.
    """
    if a.type != b.type or _kind(a) != _kind(b):
        return False
    sizes = ("n", "c", "h", "w", "k") if a.type == "conv2d" else ("m", "n", "k")
    for name in sizes:
        one, other = a[name], b[name]
        if one is None or other is None:
            continue
        assert isinstance(one, int)
        assert isinstance(other, int)
        if max(one, other) > NEAR * min(one, other):
            return False
    return a.type in ("conv2d", "gemm") or a == b


def _kind(problem: Problem) -> tuple[object, ...]:
    names = {"conv2d": ("r", "s", "stride_h", "stride_w", "dilation_h", "dilation_w", "dtype", "layout", "direction"),
             "gemm": ("trans_a", "trans_b", "dtype")}.get(problem.type)
    if names is None:
        return problem.features
    kind: tuple[object, ...] = tuple(problem[name] for name in names)
    if problem.type == "conv2d":
        groups, c = problem["groups"], problem["c"]
        kind += ("dense" if groups == 1 else "depthwise" if groups == c else "grouped",)
    return kind
