"""Matrix products for CLBlast's data: known layers and drawn ones of many shapes, and held-out ones near none of them.

The held-out products are drawn first, by a seed of their own, so no measurement can have decided about them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.problem_sets.similarity import SimilarityIndex

HELD_OUT, TUNED, FURTHER = 26, 74, 60
SEEDS = (2026, 7)  # of the held-out and of the tuned products
LEAST_FLOP, MOST_FLOP = 4e5, 3e8  # 0.1 ms to 30 ms by CLBlast's own parameters on two threads
LAYERS = (
    "gemm m=128 n=768 k=768 trans_b=yes", "gemm m=32 n=3072 k=768 trans_b=yes", "gemm m=16 n=768 k=3072 trans_b=yes",
    "gemm m=128 n=128 k=64 trans_b=yes", "gemm m=197 n=384 k=384", "gemm m=1 n=1000 k=2048 trans_b=yes",
    "gemm m=784 n=128 k=256", "gemm m=196 n=1024 k=256", "gemm m=49 n=512 k=2048", "gemm m=3136 n=64 k=64",
    "gemm m=256 n=256 k=256", "gemm m=512 n=512 k=512", "gemm m=64 n=64 k=64", "gemm m=1024 n=32 k=1024",
)


def _between(generator: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(generator.uniform(np.log(low), np.log(high))))


# shape -> the bounds of its sizes m, n and k
SHAPES: dict[str, tuple[tuple[float, float], ...]] = {
    "square": ((48, 520),),  # one size for all three
    "small": ((24, 128), (24, 128), (24, 256)),
    "skinny": ((1, 16), (128, 2048), (128, 2048)),
    "tall": ((512, 6000), (8, 128), (16, 512)),
    "deep": ((16, 160), (16, 160), (512, 6000)),
    "wide": ((32, 256), (512, 4096), (16, 512)),
    "any": ((16, 1024), (16, 1024), (16, 1024)),
}


def draw(generator: np.random.Generator) -> Problem:
    """Draw a product: a shape, sizes that are odd or multiples of 8, 32 or 64, and transpositions."""
    drawn = [_between(generator, *bounds) for bounds in SHAPES[str(generator.choice(list(SHAPES)))]]
    sizes = drawn if len(drawn) > 1 else 3 * drawn
    step = int(generator.choice([1, 8, 32, 64], p=[0.35, 0.2, 0.25, 0.2]))
    m, n, k = (max(1, round(size)) if size < step else max(1, round(size / step)) * step for size in sizes)
    turned = [str(generator.choice(["no", "yes"], p=[1 - share, share])) for share in (0.2, 0.35)]
    return Problem.make("gemm", m=m, n=n, k=k, trans_a=turned[0], trans_b=turned[1])


def distinct(count: int, seed: int, first: Sequence[Problem] = (), avoid: Sequence[Problem] = ()) -> list[Problem]:
    """`count` products: those of `first` and drawn ones. None is near another one or one of `avoid`."""
    generator, index = np.random.default_rng(seed), SimilarityIndex(avoid)
    chosen: list[Problem] = []
    waiting = list(first)
    while len(chosen) < count:
        problem = waiting.pop(0) if waiting else draw(generator)
        if LEAST_FLOP <= problem.size("flop") <= MOST_FLOP and not index.has_near(problem):
            index.add(problem)
            chosen.append(problem)
    return chosen


def held_out() -> list[Problem]:
    """The products that are never tuned for training."""
    return distinct(HELD_OUT, SEEDS[0])


def tuned() -> list[Problem]:
    """The products on which all configurations are measured; none is near a held-out one."""
    return training()[:TUNED]


def further() -> list[Problem]:
    """The products on which only those configurations are measured that were fast on a tuned one."""
    return training()[TUNED:]


def training() -> list[Problem]:
    """The products that the shipped checkpoint learns from: tuned and further ones."""
    return distinct(TUNED + FURTHER, SEEDS[1], [parse_problem(text) for text in LAYERS], held_out())
