"""Sample problems of an operation: its example, small ones, and some drawn within the bounds of its features."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from seqtune.errors import MisuseError, ProblemError

from ..operations.feature import Value
from ..operations.operation import Operation
from ..problem import Problem
from ..problem_sets.parse import parse_problem

DRAWN = 6  # problems
MOST_DRAWS = 60  # tries, because many drawn problems may break the rules
EQUAL_SIZES = (1024, 6720, 64)  # one size for all whole numbers, for square problems; 6720 = 64 * 3 * 5 * 7


def sample_problems_of(work: Operation) -> list[Problem]:
    """The sample problems, always the same. Raises ProblemError if the operation's example is not one of its problems.
    """
    problems = dict.fromkeys([example_of(work)])
    for features in _suggested(work):
        try:
            problems.setdefault(Problem.make(work.name, **features))
        except MisuseError:  # the problem breaks a rule
            continue
        if len(problems) > DRAWN + 1:
            break
    return list(problems)


def example_of(work: Operation) -> Problem:
    """The operation's example. Raises ProblemError if it is not one of its problems."""
    problem = parse_problem(work.example)
    if problem.type != work.name:
        raise ProblemError(f"{work.example!r:.80} is a {problem.type}, not a {work.name}")
    return problem


def _suggested(work: Operation) -> list[Mapping[str, Value]]:
    """Features at their lower bounds, equal ones, then drawn ones; none for an operation without a sampler."""
    generator = np.random.default_rng(0)
    if work.is_open:
        return []
    regular: list[Mapping[str, Value]] = [_equal(work, size) for size in (0, *EQUAL_SIZES)]
    try:
        return [*regular, *(work.draw(generator) for _ in range(MOST_DRAWS))]
    except ProblemError:
        return regular


def _equal(work: Operation, size: int) -> dict[str, Value]:
    """Required features, all whole numbers of this size or the nearest that their bounds allow."""
    return {feature.name: feature.choices[0] if feature.choices else 1.0 if feature.number
            else feature.nearest(size) for feature in work.features if feature.required}
