"""Similarity: whether two problems must be on the same side of a split, and the distance between two problems."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

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


def near_groups(problems: Iterable[Problem]) -> list[list[Problem]]:
    """Split problems into groups: one that is near another is in the group of that one, and so on from near to near."""
    by_kind: dict[tuple[object, ...], list[Problem]] = {}
    for problem in problems:
        by_kind.setdefault(_kind(problem), []).append(problem)
    groups: list[list[Problem]] = []
    for members in by_kind.values():
        rows = [[np.nan if size is None else size for size in _sizes(problem)] for problem in members]
        sizes = np.array(rows, np.float64).reshape(len(members), -1)  # (problem, size)
        left = np.arange(len(members))
        while len(left):
            group, waiting, left = [int(left[0])], [int(left[0])], left[1:]
            while waiting and len(left):
                own, others = sizes[waiting.pop()], sizes[left]
                is_near = ~(np.maximum(own, others) > NEAR * np.minimum(own, others)).any(axis=1)  # NaN is near
                found = left[is_near].tolist()
                group, waiting, left = group + found, waiting + found, left[~is_near]
            groups.append([members[index] for index in sorted(group)])
    return groups


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
