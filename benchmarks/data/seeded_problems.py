"""Seeded problems of one kind: the sampler's sizes, with the features that make the kind, a layout and an epilogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from seqtune.errors import ProblemError
from seqtune.kernels.operations.draws import choose
from seqtune.kernels.operations.feature import Value
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.kinds import PRODUCTS, kind_of
from seqtune.kernels.problem_sets.sampler import LARGEST_OPERAND, largest_tensor
from seqtune.kernels.problem_sets.similarity import SimilarityIndex

DRAWS = 3000  # draws for each wanted problem; a kind in which fewer fit is refused
Features = dict[str, Value]


def seeded_problems(kind: str, count: int, seed: int, avoid: Sequence[Problem] = ()) -> list[Problem]:
    """Draw `count` distinct problems of a kind (`kinds.KINDS`), the same for the same arguments.

    Half of the convolutions are NHWC, half of all problems have a bias, and most of these a ReLU; none is near a
    problem of `avoid`, or near another one of the answer. Raises ProblemError if too few such problems exist.
    """
    generator = np.random.default_rng([seed, *kind.encode()])
    work = operation("gemm" if kind in PRODUCTS else "conv2d")
    chosen: list[Problem] = []
    avoided = SimilarityIndex(avoid)
    for _ in range(DRAWS * count):
        if len(chosen) == count:
            return chosen
        features = {**work.draw(generator), **_epilogue(generator)}
        features.update(_SHAPES.get(kind, _plain)(generator, features))
        if work.name == "conv2d":
            features["layout"] = "NHWC" if generator.random() < 0.5 else "NCHW"
            features["n"] = choose(generator, (1, 2, 4, 8), (0.6, 0.15, 0.15, 0.1))
        try:
            problem = Problem.make(work.name, **features)
        except ProblemError:
            continue  # for example, a filter larger than its input
        if (kind_of(problem) == kind and work.least_flop <= problem.size("flop") <= work.most_flop
                and largest_tensor(problem) < LARGEST_OPERAND
                and not avoided.has_near(problem)):
            chosen.append(problem)
            avoided.add(problem)
    raise ProblemError(f"found only {len(chosen)} of {count} problems of the kind {kind}; avoid fewer")


def _epilogue(generator: np.random.Generator) -> Features:
    bias = generator.random() < 0.5
    return {"bias": "yes" if bias else "no", "activation": "relu" if bias and generator.random() < 0.7 else "none"}


def _plain(generator: np.random.Generator, features: Mapping[str, Value]) -> Features:
    return {}


def _filter(r: int, s: int, **more: Value) -> Features:
    """A dense filter, padded so that only its stride changes the size."""
    dilation = int(more.get("dilation_h") or 1)
    return {"r": r, "s": s, "pad_h": dilation * (r - 1) // 2, "pad_w": dilation * (s - 1) // 2, "stride_h": 1,
            "stride_w": 1, "dilation_h": 1, "dilation_w": 1, "groups": 1, **more}


def _image(generator: np.random.Generator, features: Mapping[str, Value]) -> Features:
    r, stride = choose(generator, (3, 5, 7, 9), (0.4, 0.25, 0.25, 0.1)), choose(generator, (1, 2))
    size = choose(generator, (28, 64, 96, 128, 160, 192, 224, 256, 299))
    return _filter(r, r, c=choose(generator, (1, 2, 3, 4), (0.2, 0.1, 0.5, 0.2)), h=size, w=size,
                   k=choose(generator, (8, 12, 16, 24, 32, 48, 64, 96)), stride_h=stride, stride_w=stride)


def _depthwise(generator: np.random.Generator, features: Mapping[str, Value]) -> Features:
    r, stride = choose(generator, (3, 5, 7), (0.5, 0.35, 0.15)), choose(generator, (1, 2), (0.7, 0.3))
    return _filter(r, r, k=features["c"], groups=features["c"], stride_h=stride, stride_w=stride)


def _grouped(generator: np.random.Generator, features: Mapping[str, Value]) -> Features:
    groups = choose(generator, (2, 4, 8, 16, 32))
    width, stride = choose(generator, (4, 8, 16, 24, 32, 48)), choose(generator, (1, 2), (0.75, 0.25))
    r = choose(generator, (1, 3, 5), (0.2, 0.7, 0.1))
    return _filter(r, r, c=groups * width, k=groups * width, groups=groups, stride_h=stride, stride_w=stride)


def _dilated(generator: np.random.Generator, features: Mapping[str, Value]) -> Features:
    dilation, r = choose(generator, (2, 3, 4, 6, 12)), choose(generator, (3, 5), (0.85, 0.15))
    return _filter(r, r, dilation_h=dilation, dilation_w=dilation)


def _oblong(generator: np.random.Generator, features: Mapping[str, Value]) -> Features:
    length = choose(generator, (3, 5, 7, 9))
    return _filter(1, length) if generator.random() < 0.5 else _filter(length, 1)


def _strided(generator: np.random.Generator, features: Mapping[str, Value]) -> Features:
    r = choose(generator, (1, 2, 3, 5), (0.25, 0.15, 0.45, 0.15))
    return _filter(r, r, stride_h=2, stride_w=2)


def _square(*sizes: int) -> Callable[[np.random.Generator, Mapping[str, Value]], Features]:
    def shape(generator: np.random.Generator, features: Mapping[str, Value]) -> Features:
        r = choose(generator, sizes)
        return _filter(r, r)
    return shape


def _one_row(generator: np.random.Generator, features: Mapping[str, Value]) -> Features:
    return {"m": 1, "trans_a": "no"}


_SHAPES: Mapping[str, Callable[[np.random.Generator, Mapping[str, Value]], Features]] = {
    "image": _image, "depthwise": _depthwise, "grouped": _grouped, "dilated": _dilated, "1x7": _oblong,
    "strided": _strided, "1x1": _square(1), "3x3": _square(3), "5x5": _square(5, 7), "gemm m=1": _one_row}
