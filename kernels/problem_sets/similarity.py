"""Similarity: whether two problems must be on the same side of a split, and the distance between two problems."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ..operations.feature import Value
from ..operations.table import operation
from ..problem import Problem

NEAR = 1.25  # largest factor between two sizes that count as similar


def near(a: Problem, b: Problem) -> bool:
    """Whether two problems are similar: equal kind, and every size within a factor of 1.25.

    Training on one leaks the other, so similar problems must be on the same side of a split. An unknown size is similar
    to any size.
    """
    return _kind(a) == _kind(b) and _sizes_near(_sizes(a), _sizes(b))


class SimilarityIndex:
    """Problems by kind: finds out whether a problem is near any of them, without comparing it with all."""

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        self._by_kind: dict[tuple[object, ...], list[tuple[Value, ...]]] = {}
        for problem in problems:
            self.add(problem)

    def add(self, problem: Problem) -> None:
        """Add a problem."""
        self._by_kind.setdefault(_kind(problem), []).append(_sizes(problem))

    def has_near(self, problem: Problem) -> bool:
        """Whether the problem is near (see `near`) one of the index."""
        others = self._by_kind.get(_kind(problem), ())
        if not others:
            return False
        sizes = _sizes(problem)
        return any(_sizes_near(sizes, other) for other in others)


def _kind(problem: Problem) -> tuple[object, ...]:
    return (problem.type, *operation(problem.type).kind(problem))


def _sizes(problem: Problem) -> tuple[Value, ...]:
    return tuple(problem[name] for name in operation(problem.type).sizes)


def _sizes_near(sizes: Sequence[Value], others: Sequence[Value]) -> bool:
    for size, other in zip(sizes, others, strict=True):
        if size is None or other is None:
            continue
        assert isinstance(size, int | float)
        assert isinstance(other, int | float)
        if max(size, other) > NEAR * min(size, other):
            return False
    return True


def distance(a: Problem, b: Problem) -> float:
    """The distance of two problems of one operation: log2 of the ratio of sizes, plus 1 for every other difference."""
    features, others = dict(a), dict(b)
    total = 0.0
    for name in {**features, **others}:  # in a fixed order: sums of floats depend on it
        value, other = features.get(name), others.get(name)
        if isinstance(value, int | float) and isinstance(other, int | float) and min(value, other) >= 0:
            total += abs(math.log2((value + 1) / (other + 1)))
        else:
            total += value != other
    return total
