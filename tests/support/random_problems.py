"""A few random problems of any operation."""

from __future__ import annotations

from seqtune.errors import SeqtuneError
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.sampler import sample_problems

_FEATURES = ("n", "c", "h", "w", "k", "r", "s", "pad_h", "pad_w", "stride_h", "stride_w")


def some_problems(operation: str, convolutions: int, seed: int) -> list[Problem]:
    """Four problems of the seed; for convnd, each of so many convolutions in every direction.

    There are none for an operation without a sampler.
    """
    if operation != "convnd":
        try:
            return sample_problems(operation, 4, seed)
        except SeqtuneError:
            return []
    return [Problem.make("convnd", direction=direction, **{name: problem[name] for name in _FEATURES})
            for problem in sample_problems("conv2d", convolutions, seed)
            for direction in ("forward", "backward_data", "backward_weights")]
