"""Similarity: whether two problems must be on the same side of a split, and the distance between two problems."""

from __future__ import annotations

import math

from ..operations.table import operation
from ..problem import Problem

NEAR = 1.25  # largest factor between two sizes that count as similar


def near(a: Problem, b: Problem) -> bool:
    """Whether two problems are similar: equal kind, and every size within a factor of 1.25.

    Training on one leaks the other, so similar problems must be on the same side of a split. An unknown size is similar
    to any size.
    """
    if a.type != b.type:
        return False
    work = operation(a.type)
    if work.kind(a) != work.kind(b):
        return False
    for name in work.sizes:
        size, other = a[name], b[name]
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
