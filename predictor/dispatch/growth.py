"""Growth: how the trees of a rule grow from shapes whose slowness is known.

Trees are boosted (Friedman 2001, with second derivatives as in XGBoost) on tests, which are facts with thresholds. Two
losses are added: the cross entropy with the members that are nearly the best, weighted with what is at stake, which
finds good splits, and the expected regret of a choice drawn by the scores, which is what counts. The numbers of leaves
are rounded to few levels before the next tree grows, so that it corrects the rounding. Tests are chosen first, by
their gain in a few trees on a part of the shapes, since facts and thresholds take room in a file as trees do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.task import Floats

from .tree import LEVELS, Tree, Whole

NEAR = 0.14  # of the mean stake: differences below it hardly count, about the noise of a label
REGRET = 1.5  # weight of the expected regret beside the cross entropy
UNIT = 1024  # by which scores are multiplied to be whole numbers
LEAST_SHAPES = 3  # in a leaf
SMOOTHING = 1.0  # added to second derivatives: leaves of few shapes stay near 0
SHAPES_PER_LEAF = 60  # on average, of the deepest trees
SINGLE_DEPTH = 4  # of a tree that people read
LEAST_GAIN = 0.02  # of the mean stake: what a split of such a tree saves at least
DEEPEST, MOST_TREES, FEWEST_TREES = 7, 40, 3
TREE_SHARE, TEST_SHARE = 0.8, 0.5  # of the shapes and of the tests that a tree sees
FIRST_SHAPES, FIRST_TREES, FIRST_DEPTH = 6000, 10, 5  # of the trees that choose tests
COARSE, FINE_CUTS = 16, 32  # thresholds of a fact: to choose facts, and then to choose tests
MOST_FACTS, MOST_TESTS = 32, 300
TEST_BYTES = 9  # of a test in a file


@dataclass(frozen=True, eq=False)
class Tests:
    """Tests `value of facts[i] > thresholds[i]`."""

    facts: Whole
    thresholds: Whole

    def __len__(self) -> int:
        return len(self.facts)

    @classmethod
    def of(cls, values: NDArray[np.int64], facts: Sequence[int], most: int) -> Tests:
        """At most `most` tests of each fact, with about equally many shapes between them."""
        cuts = [_cuts(values[:, fact], most) for fact in facts]
        return cls(np.repeat(np.asarray(facts, np.int64), list(map(len, cuts))),
                   np.concatenate([*cuts, np.empty(0, np.int64)]))

    def take(self, numbers: Whole) -> Tests:
        """Some of the tests."""
        return Tests(self.facts[numbers], self.thresholds[numbers])

    def hold(self, values: NDArray[np.int64]) -> NDArray[np.float32]:
        """Whether each holds: 0 or 1, (shape, test)."""
        return np.asarray(values[:, self.facts] > self.thresholds, np.float32)


def _cuts(column: Whole, most: int) -> Whole:
    """Thresholds between neighbouring values of a fact."""
    distinct, counts = np.unique(column, return_counts=True)
    low, high = distinct[:-1], distinct[1:]
    if len(low) > most:
        shares = np.cumsum(counts)[:-1] / len(column)
        kept = np.unique(np.searchsorted(shares, (np.arange(most) + 0.5) / most).clip(max=len(low) - 1))
        low, high = low[kept], high[kept]
    return np.asarray(low // 2 + high // 2 + (low % 2 + high % 2) // 2)


@dataclass(frozen=True, eq=False)
class Losses:
    """What the trees minimise, in units of the mean stake. Shapes: (shape, member), but for (shape,) weights."""

    regret: Floats
    weights: Floats
    wanted: Floats  # the probability that each member is a good answer
    stakes: Floats  # (shape, 1) weight of the cross entropy

    @classmethod
    def of(cls, costs: Floats, weights: Floats) -> Losses:
        """The losses for the cost of every member at every shape."""
        weights = weights / weights.mean()
        regret = costs - costs.min(axis=1, keepdims=True)
        stakes = regret.mean(axis=1) * weights
        regret = regret / max(float(stakes.mean()), 1e-12)
        wanted = np.exp(-regret / NEAR)
        return cls(regret, weights, wanted / wanted.sum(axis=1, keepdims=True),
                   (stakes / max(float(stakes.mean()), 1e-12))[:, None])

    def take(self, rows: Whole) -> Losses:
        """The losses of some shapes."""
        return Losses(self.regret[rows], self.weights[rows], self.wanted[rows], self.stakes[rows])

    def derivatives(self, scores: Floats) -> tuple[Floats, Floats]:
        """The first derivatives by the scores, of which the lowest is chosen, and bounds of the second ones."""
        likely = np.exp(scores.min(axis=1, keepdims=True) - scores)
        likely /= likely.sum(axis=1, keepdims=True)
        more = self.regret - (likely * self.regret).sum(axis=1, keepdims=True)
        weights = REGRET * self.weights[:, None] * likely
        return (self.stakes * (self.wanted - likely) - weights * more,
                self.stakes * np.maximum(2 * likely * (1 - likely), 1e-3) + weights * (1 - likely) * np.abs(more))


def boost(held: NDArray[np.float32], losses: Losses, count: int, depth: int, seed: int,
          gains: Floats | None = None) -> list[Tree]:
    """Grow `count` trees over the tests that hold, (shape, test). What each test gained is added to `gains`."""
    generator = np.random.default_rng(seed)
    shapes, members = losses.regret.shape
    rate = min(0.4, 6 / count)
    scores = np.zeros((shapes, members))
    trees = []
    for _ in range(count):
        first, second = losses.derivatives(scores)
        rows = np.sort(generator.permutation(shapes)[:max(int(TREE_SHARE * shapes), min(shapes, 20))])
        tests = np.sort(generator.permutation(held.shape[1])[:max(1, int(TEST_SHARE * held.shape[1]))])
        sums = np.concatenate([first, second, np.ones((shapes, 1))], axis=1).astype(np.float32)
        nodes, leaf = _tree(held, sums, rows, tests, depth, gains)
        totals = np.stack([np.bincount(leaf[rows], column, 1 << depth) for column in sums[rows].T], axis=1)
        leaves = -rate * totals[:, :members] / (totals[:, members:-1] + SMOOTHING)
        leaves -= leaves.mean(axis=1, keepdims=True)
        largest = min(float(np.abs(leaves).max()), 3 * float(np.sqrt((leaves**2).mean())))
        scale = max(1, int(np.ceil(largest * UNIT / LEVELS)))
        whole = np.clip(np.rint(leaves * UNIT / scale), -LEVELS, LEVELS).astype(np.int64)
        scores += whole[leaf] * (scale / UNIT)
        trees.append(Tree(nodes, whole, scale))
    return trees


def _tree(held: NDArray[np.float32], sums: NDArray[np.float32], rows: Whole, tests: Whole, depth: int,
          gains: Floats | None) -> tuple[Whole, Whole]:
    """The tests of a complete tree's nodes and the leaf of every shape, by the shapes `rows` and some tests.

    `sums` holds derivatives of every member, first and second, and a one: (shape, 2 members + 1).
    """
    nodes = np.zeros((1 << depth) - 1, np.int64)
    node = np.zeros(len(held), np.int64)
    for level in range(depth):
        begin = (1 << level) - 1
        order = rows[np.argsort(node[rows], kind="stable")]
        ends = np.searchsorted(node[order], np.arange(begin, 2 * begin + 2))
        for number in range(begin + 1):
            own = order[ends[number]:ends[number + 1]]
            if len(own) < 2 * LEAST_SHAPES:
                continue
            total = sums[own].sum(axis=0)
            right = held[np.ix_(own, tests)].T @ sums[own]
            left = total - right
            gain = _worth(left) + _worth(right) - _worth(total[None])
            gain[(left[:, -1] < LEAST_SHAPES) | (right[:, -1] < LEAST_SHAPES)] = -1.0
            best = int(np.argmax(gain))
            if gain[best] > 0:
                nodes[begin + number] = tests[best]
                if gains is not None:
                    gains[tests[best]] += gain[best]
        node = 2 * node + 1 + (held[np.arange(len(held)), nodes[node]] > 0)
    return nodes, node - len(nodes)


def _worth(sums: NDArray[np.float32]) -> Floats:
    """How much the losses fall where the best number is added to the scores: (test, 2 members + 1) to (test,)."""
    members = sums.shape[1] // 2
    return np.asarray((sums[:, :members]**2 / (sums[:, members:-1] + SMOOTHING)).sum(axis=1), np.float64)


def single(held: NDArray[np.float32], losses: Losses) -> Tree:
    """Grow one small tree whose leaves order the members by their regret there; splits that save little are undone."""
    first, second = losses.derivatives(np.zeros_like(losses.regret))
    sums = np.concatenate([first, second, np.ones((len(held), 1))], axis=1).astype(np.float32)
    depth = min(SINGLE_DEPTH, deepest(len(held))) if held.shape[1] else 0
    nodes, leaf = _tree(held, sums, np.arange(len(held)), np.arange(held.shape[1]), depth, None)
    weighted = losses.regret * losses.weights[:, None]
    costs = np.stack([np.bincount(leaf, column, 1 << depth) for column in weighted.T], axis=1) / len(held)
    least = costs.min(axis=1)  # what the leaves lose, pruned so far
    for level in reversed(range(depth)):
        size = 1 << (depth - level)  # leaves below each node of the level
        for number in range(1 << level):
            own = slice(number * size, (number + 1) * size)
            together = costs[own].sum(axis=0) if len(np.unique(costs[own], axis=0)) > 1 else costs[own][0] * size
            if together.min() - least[own].sum() < LEAST_GAIN:
                costs[own], least[own] = together / size, together.min() / size
                if level:
                    nodes[(1 << level) - 1 + number] = nodes[0]
    if depth and len(np.unique(costs, axis=0)) == 1:
        nodes, costs = nodes[:0], costs[:1]
    return Tree(nodes, np.stack(list(map(_levels, costs))), UNIT)


def _levels(costs: Floats) -> Whole:
    """The costs of a leaf as levels in the same order, of which at least the first three differ."""
    more = costs - costs.min()
    levels = np.rint(2 * LEVELS * more / max(float(more.max()), 1e-12)).astype(np.int64)
    for place, member in enumerate(np.argsort(costs, kind="stable")[:3]):
        levels[member] = max(levels[member], place) if place else 0
    order = np.argsort(costs, kind="stable")[3:]
    levels[order] = np.maximum(levels[order], min(2 * LEVELS, 3))
    return np.asarray(levels - LEVELS)


def choose_tests(values: NDArray[np.int64], losses: Losses, prices: Whole, room: int, seed: int) -> Tests:
    """The tests that gain most, of facts that gain most; they and their facts take at most `room` bytes.

    `prices` are the bytes of each fact.
    """
    part = np.sort(np.random.default_rng(seed).permutation(len(values))[:FIRST_SHAPES])
    values, losses = values[part], losses.take(part)
    tests = Tests.of(values, range(values.shape[1]), COARSE)
    gains = _gains(values, losses, tests, seed)
    by_fact = np.bincount(tests.facts, gains, values.shape[1])
    best = np.argsort(-by_fact / np.sqrt(prices), kind="stable")[:MOST_FACTS]
    best = best[(by_fact[best] > 0) & (np.cumsum(prices[best]) <= room // 2)]
    tests = Tests.of(values, np.sort(best).tolist(), FINE_CUTS)
    gains = _gains(values, losses, tests, seed + 1)
    most = min(MOST_TESTS, (room - int(prices[best].sum())) // TEST_BYTES)
    kept = np.argsort(-gains, kind="stable")[:most]
    return tests.take(np.sort(kept[gains[kept] > 0]))


def _gains(values: NDArray[np.int64], losses: Losses, tests: Tests, seed: int) -> Floats:
    """What each test gains in a few trees, (test,)."""
    gains = np.zeros(len(tests))
    if len(tests):
        boost(tests.hold(values), losses, FIRST_TREES, min(FIRST_DEPTH, deepest(len(values)) + 1), seed, gains)
    return gains


def deepest(shapes: int) -> int:
    """The depth of trees for this many shapes."""
    return int(np.clip(np.log2(max(shapes, 1) / SHAPES_PER_LEAF * 2), 1, DEEPEST))
