"""Learning of rules: one small tree, or boosted trees where these lose less on shapes that they did not see.

Trees are boosted (Friedman 2001, with second derivatives as in XGBoost) on tests, which are facts with thresholds. Two
losses are added: the cross entropy with the members that are nearly the best, weighted with what is at stake, which
finds good splits, and the expected regret of a choice drawn by the scores, which is what counts. The numbers of leaves
are rounded to few levels before the next tree grows, so that it corrects the rounding. Tests are chosen first, by
their gain in a few trees on a part of the shapes, since facts and thresholds take room in a file as trees do.

Members that guards pass over do not count in either loss: eight kernels for 110 measured convolutions of a CPU reach
0.753 of the best speed on shapes that the rule did not see, instead of 0.604 where they counted as 20 times slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import MisuseError
from seqtune.kernels.task import Floats

from .facts import Fact
from .goal import Goal
from .rule import FAR, LEVELS, Rule, Tree, Whole

Held = NDArray[np.float64]  # whether tests hold, 0 or 1: (shape, test)

ROOM = 13_300  # bytes of a rule, so that a file of C has at most 20,000 of them
FACT_BYTES, TEST_BYTES, TREE_BYTES = 25, 9, 18  # in a file of C, beside the text of an expression and of a tree
SINGLE_BYTES = 2000  # of the facts and tests among which a single tree chooses
FOLDS = 10  # of the shapes, to find out whether boosted trees are better than a single one
MANY = 4000  # shapes from which on they are
LEAST_GAIN = 0.002  # of the goal's loss, for which a rule may be larger
UNSURE = 0.2  # share of the weight of the shapes whose choice counts as not sure: those with the least lead

NEAR = 0.14  # of the mean stake: differences below it hardly count, about the noise of a label
REGRET = 1.5  # weight of the expected regret beside the cross entropy
UNIT = 1024  # by which scores are multiplied to be whole numbers
EXACT = 2.0**-24  # of which derivatives are multiples, so that their sums are exact, in any order
LEAST_SHAPES = 3  # in a leaf
SMOOTHING = 1.0  # added to second derivatives: leaves of few shapes stay near 0
SHAPES_PER_LEAF = 60  # on average, of the deepest trees
SINGLE_DEPTH = 4  # of a tree that people read
LEAST_SAVED = 0.02  # of the mean stake: what a split of such a tree saves at least
DEEPEST, MOST_TREES, FEWEST_TREES = 7, 40, 3
FIRST_SHAPES, FIRST_TREES, FIRST_DEPTH = 6000, 10, 5  # of the trees that choose tests
COARSE, FINE = 16, 32  # thresholds of a fact: to choose facts, and then to choose tests
MOST_FACTS, MOST_TESTS = 32, 300


@dataclass(frozen=True, eq=False)
class Learner:
    """Learns rules of at most about `room` bytes in a file, from shapes whose slowness is known. Raises MisuseError."""

    values: Whole  # (shape, fact)
    slowness: Floats  # (shape, member) log(time / best time)
    weights: Floats  # (shape,) 0 for shapes that only teach: nothing is judged by them
    goal: Goal
    facts: Sequence[Fact]
    room: int = ROOM
    seed: int = 0
    valid: NDArray[np.bool_] | None = None  # (shape, member) False: guards pass over it; None: nothing is known of that

    def __post_init__(self) -> None:
        if not len(self.slowness) or len(self.values) != len(self.slowness) or not np.isfinite(self.slowness).all():
            raise MisuseError("a rule needs the slowness of every member at every shape (found "
                              f"{self.slowness.shape})")

    def rule(self) -> Rule:
        """Learn from all shapes; the smallest good rule. It has those of the facts that its trees read."""
        count, members = self.slowness.shape
        if np.ptp(self.goal.stakes(self.slowness), axis=1).max() <= 0:
            return Rule(members)
        rule = self.learn(np.arange(count), int(np.count_nonzero(self.weights)) > MANY or self.cross_fit(FOLDS)[0])
        leads = rule.leads(self.scores(rule))
        order = np.argsort(leads, kind="stable")
        unsure = int(np.searchsorted(np.cumsum(self.weights[order]), UNSURE * self.weights.sum()))
        return replace(rule, sure=int(leads[order[min(unsure, count - 1)]]))

    def scores(self, rule: Rule) -> Whole:
        """The rule's scores of the members, FAR for one that is not valid: (shape, member)."""
        scores = rule.scores(self.values[:, [self.facts.index(fact) for fact in rule.facts]])
        return scores if self.valid is None else np.where(self.valid, scores, FAR)

    def learn(self, rows: Whole, boosted: bool) -> Rule:
        """Learn a rule from the shapes `rows`: as many boosted trees as have room, or one small tree."""
        values, members = self.values[rows], self.slowness.shape[1]
        only = self.weights[rows] == 0  # together they count as much as the others
        weights = np.where(only, self.weights[rows].sum() / max(1, only.sum()), self.weights[rows])
        losses = Losses.of(self.goal.stakes(self.slowness[rows]), weights,
                           None if self.valid is None else self.valid[rows])
        prices = np.array([FACT_BYTES + 2 * len(fact.expression.text) for fact in self.facts], np.int64)
        tests = choose_tests(values, losses, prices, self.room // 2 if boosted else SINGLE_BYTES, self.seed)
        if boosted and len(tests):
            room = self.room - int(prices[np.unique(tests[:, 0])].sum()) - TEST_BYTES * len(tests)
            for depth in reversed(range(1, deepest(len(values)) + 1)):  # the deepest of which there is room for a few
                count = max(1, min(MOST_TREES, room // (((2 + (members + 1) // 2) << depth) + TREE_BYTES)))
                if count >= FEWEST_TREES:
                    break
            trees = boost(outcomes(tests, values), losses, count, depth)[0]
        else:
            trees = [single(outcomes(tests, values), losses)]
        used = np.unique([test for tree in trees for test in tree.tests]).astype(np.int64)
        kept = np.unique(tests[used, 0])
        numbered = [(int(np.searchsorted(kept, fact)), threshold) for fact, threshold in tests[used].tolist()]
        return Rule(members, tuple(self.facts[fact] for fact in kept.tolist()), tuple(numbered), tuple(
            replace(tree, tests=tuple(np.searchsorted(used, tree.tests).tolist())) for tree in trees))

    def cross_fit(self, count: int) -> tuple[bool, Whole]:
        """Learn without each of `count` folds in turn, and choose for its shapes.

        The result says whether boosted trees then lose less than a single one, and has the first and the second member
        that the better kind chooses for each shape: (shape, 2). Shapes that only teach are in no fold.
        """
        shapes, asked = len(self.values), np.flatnonzero(self.weights)
        folds = np.full(shapes, -1)
        folds[asked] = np.random.default_rng(self.seed).permutation(len(asked)) % min(count, len(asked))
        enough = self.goal.loss(self.slowness.min(axis=1), self.weights) + LEAST_GAIN
        best, least, chosen = False, np.inf, np.empty(0, np.int64)
        for boosted in (False, True):
            picks = np.tile(np.array([0, 1]), (shapes, 1))
            for fold in range(folds.max() + 1 if len(asked) > 1 else 0):
                rule, held = self.learn(np.flatnonzero(folds != fold), boosted), folds == fold
                picks[held] = np.argsort(self.scores(rule)[held], axis=1, kind="stable")[:, :2]
            loss = self.goal.loss(self.slowness[np.arange(shapes), picks[:, 0]], self.weights)
            if loss < least - LEAST_GAIN:
                best, least, chosen = boosted, loss, picks
            if loss <= enough:
                break
        return best, chosen


@dataclass(frozen=True, eq=False)
class Losses:
    """The losses that the trees minimise, in units of the mean stake: (shape, member), but for (shape,) weights."""

    regret: Floats
    weights: Floats
    wanted: Floats  # the probability that each member is a good answer
    stakes: Floats  # (shape, 1) weight of the cross entropy
    counts: Floats  # 1 for members that count, 0 for those that guards pass over

    @classmethod
    def of(cls, costs: Floats, weights: Floats, valid: NDArray[np.bool_] | None) -> Losses:
        """The losses for the cost of every member at every shape; `valid` says which members count (None: all)."""
        counts = np.ones(costs.shape) if valid is None else np.where(valid.any(axis=1, keepdims=True), valid, 1.0)
        weights = weights / weights.mean()
        regret = costs - np.where(counts > 0, costs, np.inf).min(axis=1, keepdims=True)
        mean = (regret * counts).sum(axis=1, keepdims=True) / counts.sum(axis=1, keepdims=True)
        regret = np.where(counts > 0, regret, mean)  # as if the others had been asked
        stakes = mean[:, 0] * weights
        regret = regret / max(float(stakes.mean()), 1e-12)
        wanted = np.exp(-regret / NEAR) * counts
        return cls(regret, weights, wanted / wanted.sum(axis=1, keepdims=True),
                   (stakes / max(float(stakes.mean()), 1e-12))[:, None], counts)

    def derivatives(self, scores: Floats) -> Held:
        """The first derivatives by the scores, of which the lowest is chosen, bounds of the second ones, and a one.

        Shapes: (shape, member) to (shape, 2 members + 1); multiples of `EXACT`.
        """
        likely = np.exp(scores.min(axis=1, keepdims=True) - scores) * self.counts
        likely /= likely.sum(axis=1, keepdims=True)
        more = self.regret - (likely * self.regret).sum(axis=1, keepdims=True)
        weights = REGRET * self.weights[:, None] * likely
        first = self.stakes * (self.wanted - likely) - weights * more
        second = self.stakes * self.counts * np.maximum(2 * likely * (1 - likely), 1e-3)
        second += weights * (1 - likely) * np.abs(more)
        return np.asarray(np.rint(np.concatenate([first, second, np.ones((len(scores), 1))], axis=1) / EXACT) * EXACT)


def boost(held: Held, losses: Losses, count: int, depth: int) -> tuple[list[Tree], Floats]:
    """Grow `count` trees over the tests that hold. The result has what each test gained, too: (test,)."""
    shapes, members = losses.regret.shape
    rate, scores, trees, gains = min(0.4, 6 / count), np.zeros((shapes, members)), [], np.zeros(held.shape[1])
    for _ in range(count):
        sums = losses.derivatives(scores)
        nodes, leaf = _grow(held, sums, depth, gains)
        totals = np.stack([np.bincount(leaf, column, 1 << depth) for column in sums.T], axis=1)
        leaves = -rate * totals[:, :members] / (totals[:, members:-1] + SMOOTHING)
        leaves -= leaves.mean(axis=1, keepdims=True)
        largest = min(float(np.abs(leaves).max()), 3 * float(np.sqrt((leaves**2).mean())))
        scale = max(1, int(np.ceil(largest * UNIT / LEVELS)))
        levels = np.clip(np.rint(leaves * UNIT / scale), -LEVELS, LEVELS).astype(np.int64)
        scores += levels[leaf] * (scale / UNIT)
        trees.append(_tree(nodes, levels, scale))
    return trees, gains


def _tree(nodes: Whole, levels: Whole, scale: int) -> Tree:
    return Tree(tuple(nodes.tolist()), tuple(map(tuple, levels.tolist())), scale)


def _grow(held: Held, sums: Held, depth: int, gains: Floats) -> tuple[Whole, Whole]:
    """The tests of a complete tree's nodes and the leaf of every shape.

    `sums` are those of `Losses.derivatives`. What each test gains is added to `gains`.
    """
    nodes = np.zeros((1 << depth) - 1, np.int64)
    node = np.zeros(len(held), np.int64)
    for level in range(depth):
        for number in range((1 << level) - 1, (2 << level) - 1):
            rows = np.flatnonzero(node == number)
            if len(rows) < 2 * LEAST_SHAPES:
                continue
            total = sums[rows].sum(axis=0)
            right = held[rows].T @ sums[rows]
            left = total - right
            gain = _worth(left) + _worth(right) - _worth(total[None])
            gain[(left[:, -1] < LEAST_SHAPES) | (right[:, -1] < LEAST_SHAPES)] = -1.0
            best = int(np.argmax(gain))
            if gain[best] > 0:
                nodes[number] = best
                gains[best] += gain[best]
        node = 2 * node + 1 + (held[np.arange(len(held)), nodes[node]] > 0)
    return nodes, node - len(nodes)


def _worth(sums: Held) -> Floats:
    """How much the losses fall where the best number is added to the scores: (test, 2 members + 1) to (test,)."""
    members = sums.shape[1] // 2
    return np.asarray((sums[:, :members]**2 / (sums[:, members:-1] + SMOOTHING)).sum(axis=1), np.float64)


def single(held: Held, losses: Losses) -> Tree:
    """Grow one small tree whose leaves order the members by their regret there; splits that save little are undone."""
    depth = min(SINGLE_DEPTH, deepest(len(held))) if held.shape[1] else 0
    nodes, leaf = _grow(held, losses.derivatives(np.zeros_like(losses.regret)), depth, np.zeros(held.shape[1]))
    weighted = losses.regret * losses.weights[:, None] / len(held)
    costs = np.stack([np.bincount(leaf, column, 1 << depth) for column in weighted.T], axis=1)
    pruned, least = costs.copy(), costs.min(axis=1)
    for level in reversed(range(depth)):
        size = 1 << (depth - level)  # leaves below each node of the level
        for number in range(1 << level):
            below = slice(number * size, (number + 1) * size)
            together = costs[below].sum(axis=0)
            if together.min() - least[below].sum() < LEAST_SAVED:
                pruned[below], least[below] = together, together.min() / size
                nodes[(1 << level) - 1 + number] = nodes[0]
    if (pruned == pruned[0]).all():
        nodes, pruned = nodes[:0], pruned[:1]
    more = pruned - pruned.min(axis=1, keepdims=True)  # its root tells small differences apart
    levels = np.rint(2 * LEVELS * (more / max(float(more.max()), 1e-12)) ** 0.25).astype(np.int64) - LEVELS
    return _tree(nodes, levels, UNIT)


def choose_tests(values: Whole, losses: Losses, prices: Whole, room: int, seed: int) -> Whole:
    """The tests that gain most, of facts that gain most; they and their facts take at most `room` bytes.

    `prices` are the bytes of each fact. A test is the number of a fact and a threshold: (test, 2).
    """
    part = np.sort(np.random.default_rng(seed).permutation(len(values))[:FIRST_SHAPES])
    losses = Losses(losses.regret[part], losses.weights[part], losses.wanted[part], losses.stakes[part],
                    losses.counts[part])
    tests, gains = _tried(values[part], losses, range(values.shape[1]), COARSE)
    by_fact = np.bincount(tests[:, 0], gains, values.shape[1])
    best = np.argsort(-by_fact / np.sqrt(prices), kind="stable")[:MOST_FACTS]
    best = best[(by_fact[best] > 0) & (np.cumsum(prices[best]) <= room // 2)]
    tests, gains = _tried(values[part], losses, np.sort(best).tolist(), FINE)
    most = min(MOST_TESTS, (room - int(prices[best].sum())) // TEST_BYTES)
    kept = np.argsort(-gains, kind="stable")[:most]
    return tests[np.sort(kept[gains[kept] > 0])]


def _tried(values: Whole, losses: Losses, facts: Sequence[int], most: int) -> tuple[Whole, Floats]:
    """At most `most` tests of each fact, and what each gains in a few trees."""
    tests = np.array([(fact, cut) for fact in facts for cut in _cuts(values[:, fact], most).tolist()],
                     np.int64).reshape(-1, 2)
    if not len(tests):
        return tests, np.zeros(0)
    depth = min(FIRST_DEPTH, deepest(len(values)) + 1)
    return tests, boost(outcomes(tests, values), losses, FIRST_TREES, depth)[1]


def _cuts(column: Whole, most: int) -> Whole:
    """Thresholds between neighbouring values of a fact, with about equally many shapes between them."""
    distinct, counts = np.unique(column, return_counts=True)
    low, high = distinct[:-1], distinct[1:]
    if len(low) > most:
        shares = np.cumsum(counts)[:-1] / len(column)
        kept = np.unique(np.searchsorted(shares, (np.arange(most) + 0.5) / most).clip(max=len(low) - 1))
        low, high = low[kept], high[kept]
    return np.asarray(low // 2 + high // 2 + (low % 2 + high % 2) // 2)


def outcomes(tests: Whole, values: Whole) -> Held:
    """The outcome of each test at each shape."""
    return np.asarray(values[:, tests[:, 0]] > tests[:, 1], np.float64)


def deepest(shapes: int) -> int:
    """The depth of trees for this many shapes."""
    return int(np.clip(np.log2(max(shapes, 1) / SHAPES_PER_LEAF * 2), 1, DEEPEST))
