"""NarrowedForest: a forest for many rows that are alike, such as all configurations of a task.

All rows of a task have the same problem and nearly the same device features, so most nodes send every row to the same
side. These nodes are decided once and left out; the trees that remain have about half the depth. The rows are
evaluated in parts small enough for the cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .forest import Floats, Forest, distinct

MANY = 500  # rows; with fewer, narrowing a forest costs more than it saves
PART = 1 << 15  # pairs of a row and a tree that are evaluated at once: their nodes take 256 KB

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NarrowedForest:
    """The nodes of a forest that some rows reach; the deepest tree comes first."""

    roots: Indices  # (tree,)
    feature: Indices  # (node,)
    threshold: Floats  # (node,)
    children: Indices  # (2 * node,) left and right child of each node; a leaf is its own child
    value: Floats  # (node,) the prediction of a leaf
    deeper: tuple[int, ...]  # the number of trees with more than 0, 1, ... steps from the root to a leaf
    tree: Indices  # (tree,) the index of each tree in the forest

    @classmethod
    def of(cls, forest: Forest, rows: Floats) -> NarrowedForest:
        """Narrow a forest to the values that rows (row, feature) have."""
        following, threshold, feature, _ = forest.descent
        inner = forest.left > 0
        with np.errstate(invalid="ignore"):  # NaN in the rows decides nothing
            to_left = inner & (rows.max(axis=0)[feature] < threshold)
            to_right = inner & (rows.min(axis=0)[feature] >= threshold)
        decided = np.arange(len(inner), dtype=np.int64)  # the node that a row at each node certainly reaches
        decided[to_left], decided[to_right] = following[to_left], following[to_right] + 1
        while not np.array_equal(further := decided[decided], decided):
            decided = further
        left = decided[following]
        right = np.where(inner, decided[np.minimum(following + 1, len(inner) - 1)], left)
        roots = decided[forest.roots]
        kept, steps = _reached(roots, left, right)
        index = np.zeros(len(inner), np.int64)
        index[kept] = np.arange(len(kept))
        order = np.argsort(-steps[roots], kind="stable")
        deeper = tuple(int((steps[roots] > depth).sum()) for depth in range(int(steps[roots].max(initial=0))))
        children = np.column_stack([index[left[kept]], index[right[kept]]]).ravel()
        return cls(index[roots[order]], feature[kept], threshold[kept], children, forest.value[kept], deeper, order)

    def margins(self, rows: Floats) -> Floats:
        """Score the rows (row, feature) of a forest with one class, as `Forest.margins` does: (row,)."""
        size = max(1, PART // len(self.roots))
        parts = [self._margins(np.ascontiguousarray(rows[begin:begin + size].T)) for begin in range(0, len(rows), size)]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    def _margins(self, columns: Floats) -> Floats:
        """The margins (row,) of a part of the rows, given as columns (feature, row)."""
        count = columns.shape[1]
        values, row, offset = columns.ravel(), np.arange(count), self.feature * count
        node = np.repeat(self.roots[:, None], count, axis=1)  # (tree, row)
        for trees in self.deeper:
            active = node[:trees]
            above = values.take(offset.take(active) + row) >= self.threshold.take(active)
            node[:trees] = self.children.take(2 * active + above)
        leaves = np.empty(node.shape, np.float32)
        leaves[self.tree] = self.value.take(node)  # sums in the order of the forest
        return np.asarray(leaves.sum(axis=0))


def _reached(roots: Indices, left: Indices, right: Indices) -> tuple[Indices, Indices]:
    """The nodes that are reached from the roots, ascending, and the most steps from every node of these to a leaf."""
    levels = [distinct(len(left), roots)]
    while len(inner := levels[-1][left[levels[-1]] != levels[-1]]):
        levels.append(distinct(len(left), left[inner], right[inner]))
    steps = np.zeros(len(left), np.int64)
    for nodes in reversed(levels):
        inner = nodes[left[nodes] != nodes]
        steps[inner] = 1 + np.maximum(steps[left[inner]], steps[right[inner]])
    return distinct(len(left), *levels), steps


def margins(forest: Forest, rows: Floats) -> Floats:
    """Score rows (row, feature) with a forest of one class, many of them by narrowing it first: (row,)."""
    if len(rows) < MANY or forest.classes > 1:
        return forest.margins(rows)[:, 0]
    return NarrowedForest.of(forest, rows).margins(rows)
