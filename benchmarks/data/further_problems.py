"""Further training problems, measured on machines that are new to the shipped data.

They are of the kinds and traits of which `collected` has few: NHWC, bias and ReLU, batches, dilated and oblong filters,
dense 3x3 filters over many channels, images, products of one row. None is near a held-out or a locked problem.
"""

from __future__ import annotations

from functools import lru_cache

from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.similarity import SimilarityIndex

from .collected_problems import problems
from .locked_problems import locked_problems
from .seeded_problems import seeded_problems

FURTHER = {"image": 10, "depthwise": 8, "grouped": 10, "dilated": 12, "1x7": 12, "strided": 8, "1x1": 10, "3x3": 8,
           "5x5": 8, "gemm m=1": 8, "gemm odd": 4, "gemm small": 4, "gemm large": 6}  # problems by kind
MANY_CHANNELS = (  # dense 3x3 convolutions: c, h and w, k, n, layout
    (256, 20, 256, 1, "NCHW"), (256, 18, 320, 1, "NHWC"), (320, 16, 320, 1, "NCHW"), (384, 13, 256, 1, "NCHW"),
    (384, 12, 384, 2, "NHWC"), (448, 10, 448, 1, "NHWC"), (512, 10, 512, 1, "NCHW"), (512, 9, 384, 2, "NHWC"),
    (480, 7, 480, 4, "NCHW"), (512, 7, 512, 1, "NHWC"))


@lru_cache(maxsize=1)
def further_training() -> tuple[Problem, ...]:
    """More training problems; every call returns the same ones."""
    avoid = (*problems().held_out, *locked_problems())
    candidates = [Problem.make("conv2d", n=n, c=c, h=h, w=h, k=k, r=3, s=3, pad_h=1, pad_w=1, layout=layout,
                               bias="yes", activation="relu") for c, h, k, n, layout in MANY_CHANNELS]
    avoided = SimilarityIndex(avoid)
    chosen = [problem for problem in candidates if not avoided.has_near(problem)]
    known = (*avoid, *problems().training)
    for kind, count in FURTHER.items():
        chosen += seeded_problems(kind, count, seed=11, avoid=(*known, *chosen))
    return tuple(chosen)
