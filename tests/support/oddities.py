"""Small problems with every feature at odds, for the tests of kernel families."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from seqtune.errors import ProblemError
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem

Pick = Callable[..., int]


def odd_problems(family: Kernel, device: Device, count: int, seed: int) -> list[Problem]:
    """Problems with strides, dilations, groups, padding, tails, layouts and epilogues that the family solves."""
    generator = np.random.default_rng(seed)

    def pick(*values: int) -> int:
        return values[generator.integers(len(values))]

    found: list[Problem] = []
    while len(found) < count:
        features: dict[str, int | str] = {"bias": ("no", "yes")[pick(0, 1)], "activation": ("none", "relu")[pick(0, 1)]}
        features |= _product(pick) if family.operation == "gemm" else _convolution(pick)
        with suppress(ProblemError):  # a filter larger than the input
            problem = Problem.make(family.operation, **features)
            if family.why_not(problem, device) is None:
                found.append(problem)
    return found


def _product(pick: Pick) -> dict[str, int | str]:
    return {"m": pick(1, 2, 7, 13, 33, 65, 100), "n": pick(1, 3, 4, 7, 16, 17, 40, 50, 129),
            "k": pick(1, 2, 3, 5, 8, 16, 24, 70), "trans_a": ("no", "yes")[pick(0, 1)],
            "trans_b": ("no", "yes")[pick(0, 1)]}


def _convolution(pick: Pick) -> dict[str, int | str]:
    """Of any kind, or of one that some families are for."""
    groups = pick(1, 1, 1, 2, 3)
    c, k = groups * pick(1, 2, 3, 4, 5, 8, 16), groups * pick(1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 33, 48, 70)
    some: dict[str, int | str] = {
        "n": pick(1, 1, 2, 3), "c": c, "h": pick(1, 5, 7, 9, 12), "w": pick(1, 6, 7, 10, 13, 30), "k": k,
        "r": pick(1, 2, 3, 5), "s": pick(1, 2, 3, 4), "pad_h": pick(0, 0, 1, 2), "pad_w": pick(0, 0, 1, 3),
        "stride_h": pick(1, 1, 2, 3), "stride_w": pick(1, 1, 2, 3), "dilation_h": pick(1, 1, 2),
        "dilation_w": pick(1, 1, 3), "groups": groups, "layout": ("NCHW", "NHWC")[pick(0, 1)]}
    plain = dict.fromkeys(("stride_h", "stride_w", "dilation_h", "dilation_w", "groups"), 1)
    kinds: tuple[dict[str, int], ...] = ({}, {}, {"r": 1, "s": 1}, {"r": 3, "s": 3, **plain}, {"groups": c, "k": c})
    return {**some, **kinds[pick(*range(len(kinds)))]}
