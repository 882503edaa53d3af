"""Sampler: seeded random problems like those of real networks, so that a model trains on more than a few networks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from seqtune.errors import ProblemError

from ..operations.table import operation
from ..problem import Problem
from .similarity import SimilarityIndex

LARGEST_OPERAND = 16_000_000  # bytes of any one tensor


def sample_problems(type_name: str, count: int, seed: int, avoid: Sequence[Problem] = ()) -> list[Problem]:
    """Draw `count` distinct problems, the same for the same seed; none is near a problem of `avoid`.

    Raises ProblemError if the operation has no sampler or too few such problems exist.
    """
    generator = np.random.default_rng(seed)
    problems: dict[Problem, None] = {}
    avoided = SimilarityIndex(avoid)
    for _ in range(200 * count + 1000):
        if len(problems) >= count:
            break
        problem = draw_problem(type_name, generator)
        if problem is not None and not avoided.has_near(problem):
            problems.setdefault(problem)
    if len(problems) < count:
        raise ProblemError(f"found only {len(problems)} of {count} problems; avoid fewer, or ask for fewer")
    return list(problems)


def draw_problem(type_name: str, generator: np.random.Generator) -> Problem | None:
    """Draw one problem; None if the drawn sizes are impossible, or the problem is too small or too large.

    Raises ProblemError if the operation has no sampler.
    """
    work = operation(type_name)
    features = work.draw(generator)
    try:
        problem = Problem.make(type_name, **features)
        largest = largest_tensor(problem)
    except ProblemError:
        return None  # for example, a filter larger than its input
    flop = problem.names().get("flop")
    fits = (not isinstance(flop, int) or work.least_flop <= flop <= work.most_flop) and largest < LARGEST_OPERAND
    return problem if fits else None


def largest_tensor(problem: Problem) -> int:
    """The bytes in fp32 of the largest tensor: an operand or the result. Raises ProblemError if it is impossible."""
    work = operation(problem.type)
    shapes = [*work.operands(problem).values(), *([work.output(problem)] if work.has_output else [])]
    return 4 * max(map(math.prod, shapes), default=0)
