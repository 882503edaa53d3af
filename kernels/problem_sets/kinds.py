"""Kinds of problems, by the filter of a convolution and the size of a matrix product.

Results are shown by kind, and problems to measure are spread over the kinds.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable

from ..problem import Problem

IMAGE_CHANNELS = 6  # most input channels of one image or two; vectors of so few are nearly empty
LARGE_PRODUCT = 1e8  # FLOP from which a matrix product is large
VECTOR = 8  # fp32 numbers of an AVX2 vector; a size that is not a multiple is `odd`

CONVOLUTIONS = ("image", "depthwise", "grouped", "dilated", "1x7", "strided", "1x1", "3x3", "5x5")
PRODUCTS = ("gemm m=1", "gemm odd", "gemm small", "gemm large")
KINDS = (*CONVOLUTIONS, *PRODUCTS)


def kind_of(problem: Problem) -> str:
    """The kind of a convolution or a matrix product: one of KINDS, the first that fits; else the operation's name."""
    if problem.type == "gemm":
        if problem["m"] == 1:
            return "gemm m=1"
        if any(problem.size(name) % VECTOR for name in ("n", "k")):
            return "gemm odd"
        return "gemm large" if problem.size("flop") >= LARGE_PRODUCT else "gemm small"
    if problem.type != "conv2d":
        return problem.type
    r, s, groups = (problem.size(name) for name in ("r", "s", "groups"))
    if problem.size("c") <= IMAGE_CHANNELS:
        return "image"
    if groups > 1:
        return "depthwise" if groups == problem["c"] else "grouped"
    if problem.size("dilation_h") > 1 or problem.size("dilation_w") > 1:
        return "dilated"
    if r != s:
        return "1x7"  # one row or one column of a filter, of any length
    if problem.size("stride_h") > 1 or problem.size("stride_w") > 1:
        return "strided"
    return "1x1" if r == 1 else "3x3" if r <= 3 else "5x5"


def spread_over_kinds(problems: Iterable[Problem], seed: int = 0) -> list[Problem]:
    """The distinct problems in a seeded order: one of each kind, then the next of each, until none is left."""
    shuffled = sorted(dict.fromkeys(problems), key=lambda problem: zlib.crc32(problem.key.encode(), seed))
    counts: Counter[str] = Counter()
    turns: dict[Problem, int] = {}
    for problem in shuffled:
        turns[problem] = counts[kind_of(problem)]
        counts[kind_of(problem)] += 1
    return sorted(shuffled, key=turns.__getitem__)
