"""Growing the trees of a rule: splits by entropy weighted with what is at stake, leaves and pruning by regret."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.task import Floats

from .tree import MIDDLE, Tree, Whole

DEPTH = 6
BINS = 48  # thresholds that are tried for a fact
NEAR = 0.03  # of slowness: members that are closer than that are nearly as good, about the noise of a time
LEAST_SHARE = 0.002  # of the weight that a leaf has
LEAST_SHAPES = 3  # in a leaf
LEAST_GAIN = 0.0005  # of mean stakes, for which a split stays

Test = tuple[int, int]  # number of a fact, and a threshold


@dataclass(frozen=True, eq=False)
class Bins:
    """Facts as the numbers of their bins: `codes[shape, fact] > i` says the same as `value > thresholds[fact][i]`."""

    codes: NDArray[np.int16]
    thresholds: tuple[Whole, ...]

    @classmethod
    def of(cls, values: NDArray[np.int64], most: int = BINS) -> Bins:
        """Cut each fact into bins of about equally many shapes. Shape of `values`: (shape, fact)."""
        thresholds = tuple(_cuts(column, most) for column in values.T)
        codes = np.stack([np.searchsorted(cuts, column, side="left") for cuts, column in zip(
            thresholds, values.T, strict=True)], axis=1) if thresholds else np.empty((len(values), 0))
        return cls(codes.astype(np.int16), thresholds)


def _cuts(column: Whole, most: int) -> Whole:
    """Thresholds between neighbouring values of a fact."""
    distinct, counts = np.unique(column, return_counts=True)
    if len(distinct) < 2:
        return np.empty(0, np.int64)
    low, high = distinct[:-1], distinct[1:]
    if len(low) > most:
        shares = np.cumsum(counts)[:-1] / len(column)
        kept = np.unique(np.searchsorted(shares, (np.arange(most) + 0.5) / most).clip(max=len(low) - 1))
        low, high = low[kept], high[kept]
    return np.asarray(low // 2 + high // 2 + (low % 2 + high % 2) // 2)


def grow(values: NDArray[np.int64], stakes: Floats, weights: Floats) -> list[tuple[Tree, list[Test]]]:
    """Grow one tree; its tests are numbers in the list of tests beside it. Shapes: `stakes` (shape, member)."""
    members = stakes.shape[1]
    if members == 1:
        return []
    weights = weights / weights.sum()
    bins = Bins.of(values)
    likely = np.exp(-(stakes - stakes.min(axis=1, keepdims=True)) / NEAR)
    likely /= likely.sum(axis=1, keepdims=True)
    at_stake = stakes.mean(axis=1) - stakes.min(axis=1)
    root = _node(bins, likely * (weights * (at_stake + NEAR / members))[:, None], stakes * weights[:, None], weights,
                 np.arange(len(values)), DEPTH)
    depth = _depth(root)
    tests: list[Test] = []
    nodes = np.zeros((1 << depth) - 1, np.int64)
    leaves = np.zeros((1 << depth, members))
    _fill(root, 0, depth, nodes, leaves, tests)
    if not tests:
        tests = [(0, 0)] if depth else []
    scale = max(float(np.abs(leaves).max()), 1e-9) / MIDDLE
    return [(Tree(tuple(range(members)), nodes, np.rint(leaves / scale).astype(np.int64)), tests)]


@dataclass(frozen=True, eq=False)
class _Node:
    """A node of a growing tree; a leaf has no test."""

    costs: Floats  # (member,) mean stakes, of which the least is 0
    test: Test | None = None
    children: tuple[_Node, ...] = ()


def _node(bins: Bins, likely: Floats, stakes: Floats, weights: Floats, rows: Whole, depth: int) -> _Node:
    """Grow the node of these rows, and prune what gains too little."""
    total = stakes[rows].sum(axis=0)
    costs = total / weights[rows].sum()
    leaf = _Node(costs - costs.min())
    split = _split(bins, likely, weights, rows) if depth else None
    if split is None:
        return leaf
    fact, code = split
    right = bins.codes[rows, fact] > code
    children = tuple(_node(bins, likely, stakes, weights, part, depth - 1) for part in (rows[~right], rows[right]))
    if total.min() - sum(_regret(child, stakes, bins, part) for child, part in zip(
            children, (rows[~right], rows[right]), strict=True)) < LEAST_GAIN:
        return leaf
    return _Node(leaf.costs, (fact, int(bins.thresholds[fact][code])), children)


def _regret(node: _Node, stakes: Floats, bins: Bins, rows: Whole) -> float:
    """The summed stakes of the rows with the members that the node's leaves put first."""
    if node.test is None:
        return float(stakes[rows, int(np.argmin(node.costs))].sum())
    fact, threshold = node.test
    right = bins.codes[rows, fact] > int(np.searchsorted(bins.thresholds[fact], threshold))
    return sum(_regret(child, stakes, bins, part) for child, part in zip(
        node.children, (rows[~right], rows[right]), strict=True))


def _split(bins: Bins, likely: Floats, weights: Floats, rows: Whole) -> tuple[int, int] | None:
    """The fact and the bin after which a split leaves the least entropy; None where none is left."""
    best, least = None, np.inf
    parts = likely[rows]
    whole = _entropy(parts.sum(axis=0)[None])[0]
    for fact, thresholds in enumerate(bins.thresholds):
        count = len(thresholds)
        if not count:
            continue
        codes = bins.codes[rows, fact]
        sums = np.stack([np.bincount(codes, part, count + 1) for part in parts.T], axis=1).cumsum(axis=0)
        mass = np.bincount(codes, weights[rows], count + 1).cumsum()
        number = np.bincount(codes, minlength=count + 1).cumsum()
        left = _entropy(sums[:-1]) + _entropy(sums[-1] - sums[:-1])
        small = np.minimum(mass[:-1], mass[-1] - mass[:-1]) < LEAST_SHARE
        few = np.minimum(number[:-1], number[-1] - number[:-1]) < LEAST_SHAPES
        left[small | few] = np.inf
        at = int(np.argmin(left))
        if left[at] < least:
            best, least = (fact, at), float(left[at])
    return best if least < whole - 1e-12 else None


def _entropy(parts: Floats) -> Floats:
    """The weighted entropy of each row of parts, (row, member) to (row,)."""
    parts = np.maximum(parts, 1e-300)
    total = parts.sum(axis=1)
    return np.asarray(total * np.log(total) - (parts * np.log(parts)).sum(axis=1))


def _depth(node: _Node) -> int:
    return 1 + max(map(_depth, node.children)) if node.children else 0


def _fill(node: _Node, at: int, depth: int, nodes: Whole, leaves: Floats, tests: list[Test]) -> None:
    """Write a node to the complete tree; below a leaf, all nodes are the first test and all leaves are this one."""
    if node.test is None:
        below = depth - (at + 1).bit_length() + 1
        first = ((at + 1) << below) - (1 << depth)
        leaves[first:first + (1 << below)] = node.costs
        return
    if node.test not in tests:
        tests.append(node.test)
    nodes[at] = tests.index(node.test)
    for side, child in enumerate(node.children, 1):
        _fill(child, 2 * at + side, depth, nodes, leaves, tests)
