"""Judging problems: which held-out problems may judge what was learned, and how they are named.

A problem near one that was learned (see `similarity.near`) cannot judge. Of a user's data, all training problems are
learned, and held-out problems near one judge no longer. The held-out problems of the shipped data are protected
instead, since the figures of the shipped checkpoints rest on them: a training problem near one is not learned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..problem import Problem
from .similarity import SimilarityIndex

NAMED = 3  # problems that a sentence names; reports have all


def judged_apart(held_out: Iterable[Problem], learned: Iterable[Problem]) -> tuple[list[Problem], list[Problem]]:
    """Split held-out problems: those that may judge what was learned, and those near a problem that was learned."""
    index = SimilarityIndex(learned)
    parts: tuple[list[Problem], list[Problem]] = ([], [])
    for problem in held_out:
        parts[index.has_near(problem)].append(problem)
    return parts


def named(problems: Sequence[str]) -> str:
    """The number of the problems and the names of the first ones."""
    more = f", and {len(problems) - NAMED} more" if len(problems) > NAMED else ""
    return f"{len(problems)} problem{'s' * (len(problems) > 1)} ({'; '.join(problems[:NAMED])}{more})"


def not_judging(problems: Sequence[str], of: str = "") -> str:
    """The sentence on held-out problems that judge no longer. `of` says whose training problem they are near."""
    verb, subject = ("judge", "each") if len(problems) > 1 else ("judges", "it")
    return f"{named(problems)} {verb} no longer: {subject} is, or nearly is, a training problem{of}"


def briefs(problems: Sequence[Problem]) -> tuple[str, ...]:
    """The problems as a user writes them, sorted."""
    return tuple(sorted(problem.brief() for problem in problems))
