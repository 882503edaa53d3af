"""Leakage: which held-out problems are too near to training problems to evaluate on, and how messages name them.

A held-out problem near a training problem (see `similarity.near`) says nothing about unseen problems. In a user's data,
all training problems are learned, and the held-out problems near one are not used for evaluation. The shipped data does
the reverse, since the figures of the shipped checkpoints rest on its held-out problems: a training problem near a
held-out one is not learned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..problem import Problem
from .similarity import SimilarityIndex

MOST_NAMED = 3  # problems that a message names; reports have all


def split_leaked(held_out: Iterable[Problem], training: Iterable[Problem]) -> tuple[list[Problem], list[Problem]]:
    """Split held-out problems: those to evaluate on, and those near a training problem."""
    index = SimilarityIndex(training)
    parts: tuple[list[Problem], list[Problem]] = ([], [])
    for problem in held_out:
        parts[index.has_near(problem)].append(problem)
    return parts


def abridged(problems: Sequence[str]) -> str:
    """The number of the problems and the names of the first ones."""
    more = f", and {len(problems) - MOST_NAMED} more" if len(problems) > MOST_NAMED else ""
    return f"{len(problems)} problem{'s' * (len(problems) > 1)} ({'; '.join(problems[:MOST_NAMED])}{more})"


def leakage_note(problems: Sequence[str], of: str = "") -> str:
    """The message on held-out problems near training problems; `of` says whose training problems these are."""
    verb, subject = ("are", "each") if len(problems) > 1 else ("is", "it")
    return (f"{abridged(problems)} {verb} not used for evaluation: {subject} is, or nearly is, a training "
            f"problem{of}")


def sorted_briefs(problems: Sequence[Problem]) -> tuple[str, ...]:
    """The problems as a user writes them, sorted."""
    return tuple(sorted(problem.brief() for problem in problems))
