"""Rule: from the facts of a shape to an order of the members, by a few small trees of whole numbers.

The score of a member is the sum of what the trees say of it, and the lowest score comes first. Everything is whole
numbers, so a file in C, a Python module and NumPy give the same order for every shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.expression import Expression
from seqtune.kernels.task import Floats

from .facts import LARGEST, Fact
from .goal import Goal
from .growth import FEWEST_TREES, MOST_TREES, TEST_BYTES, Losses, Tests, boost, choose_tests, deepest, single
from .tree import DEEPEST, DIGITS, Tree, Whole, digits, leaf_digits

MOST_MEMBERS, MOST_FACTS, LONGEST_RULE = 64, 1000, 10_000
MOST_TESTS = DIGITS**2  # of which two digits hold the number
ROOM = 13_300  # bytes of a rule, so that a file of C has at most 20,000 of them
FOLDS = 3  # of the shapes, to find out whether boosted trees are better than a single one
MANY = 4000  # shapes from which on they are
LEAST_GAIN = 0.002  # of the goal's loss, for which a rule may be larger
SINGLE_BYTES = 2000  # of the facts and tests among which a single tree chooses
UNSURE = 0.2  # share of the weight of the shapes whose choice counts as not sure: those with the least lead
FACT_BYTES, TREE_BYTES = 25, 30  # in a file of C, beside the text of an expression and of a tree


@dataclass(frozen=True, eq=False)
class Rule:
    """Trees over tests of facts. Test i holds if the fact `test_facts[i]` is greater than `thresholds[i]`."""

    members: int
    facts: tuple[Fact, ...]
    test_facts: Whole  # (test,) number of the fact that each test reads
    thresholds: Whole  # (test,)
    trees: tuple[Tree, ...]
    sure: int = 0  # the least lead of the first over the second, as a difference of scores, at which it is sure

    def __post_init__(self) -> None:
        tests = len(self.thresholds)
        if not 0 < self.members <= MOST_MEMBERS or len(self.trees) > LONGEST_RULE or tests > MOST_TESTS:
            raise FormatError(f"a rule of {self.members} members, {len(self.trees)} trees and {tests} tests is too "
                              "large, or has no member")
        if self.test_facts.shape != self.thresholds.shape or not _within(self.test_facts, len(self.facts)):
            raise FormatError("a test of the rule reads a fact that it does not have")
        for tree in self.trees:
            if not _within(tree.tests, tests) or tree.leaves.shape[1] != self.members:
                raise FormatError("a tree of the rule has a test that the rule lacks, or not a number for each member")

    def scores(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The score of every member; lower is better. Shapes: `values` (shape, fact) to (shape, member)."""
        holds = values[:, self.test_facts] > self.thresholds
        scores = np.zeros((len(values), self.members), np.int64)
        for tree in self.trees:
            scores += tree.scale * tree.leaves[tree.leaf_of(holds)]
        return scores

    def order(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The members of every shape, best first, equal scores by the member's number: (shape, member)."""
        return np.argsort(self.scores(values), axis=1, kind="stable")

    def is_sure(self, scores: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the first leads the second by `sure`, by the scores of all members: (shape, member) to (shape,)."""
        if self.members == 1:
            return np.ones(len(scores), bool)
        least = np.partition(scores, 1, axis=1)
        return np.asarray(least[:, 1] - least[:, 0] >= self.sure)

    @property
    def width(self) -> int:
        """The number of digits that hold the number of a test."""
        return 1 if len(self.thresholds) <= DIGITS else 2

    def tree_texts(self) -> list[str]:
        """The tests of each tree, in `width` digits each, and then its leaves, in digits for two members each."""
        return [digits(tree.tests.tolist(), self.width) + digits(leaf_digits(tree.leaves).ravel().tolist())
                for tree in self.trees]

    @property
    def bytes(self) -> int:
        """About how many bytes the facts, tests and trees take in a file of C."""
        tests = sum(len(str(threshold)) + 1 for threshold in self.thresholds.tolist()) + 3 * len(self.thresholds)
        return sum(map(price, self.facts)) + tests + sum(len(text) + TREE_BYTES for text in self.tree_texts())

    def to_json(self) -> dict[str, Any]:
        """The rule as JSON, which `from_json` reads."""
        return {"members": self.members, "sure": self.sure,
                "facts": [{"name": fact.name, "text": fact.expression.text} for fact in self.facts],
                "test_facts": self.test_facts.tolist(), "thresholds": self.thresholds.tolist(),
                "trees": [{"scale": tree.scale, "tests": tree.tests.tolist(), "leaves": tree.leaves.ravel().tolist()}
                          for tree in self.trees]}

    @classmethod
    def from_json(cls, content: object) -> Rule:
        """The inverse of `to_json`; the content may come from anywhere. Raises FormatError and ExpressionError."""
        try:
            return _Content.model_validate(content).rule()
        except ValidationError as error:
            first = error.errors()[0]
            raise FormatError(f"a rule's {'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    def text(self, names: Sequence[str] = ()) -> str:
        """The rule as text that people read: conditions of one tree, or the number of the trees and their facts.

        `names` are those of the members.
        """
        called = list(names) or [f"kernel {number}" for number in range(self.members)]
        if not self.trees:
            return f"always {called[0]}"
        if len(self.trees) == 1:
            return "\n".join(self._lines(self.trees[0], 0, called, ""))
        used = np.bincount(np.concatenate([self.test_facts[tree.tests] for tree in self.trees]),
                           minlength=len(self.facts))
        facts = [self.facts[number].name for number in np.argsort(-used, kind="stable") if used[number]]
        return f"{len(self.trees)} trees, of {', '.join(facts)}"

    def _lines(self, tree: Tree, node: int, names: Sequence[str], indent: str) -> list[str]:
        """The lines of a node of the only tree; branches that end in the same member are one."""
        if node >= len(tree.tests):
            return [f"{indent}{names[int(np.argmin(tree.leaves[node - len(tree.tests)]))]}"]
        inner = f"{indent}    "
        no, yes = (self._lines(tree, 2 * node + side, names, inner) for side in (1, 2))
        if no == yes:
            return [line.removeprefix("    ") for line in no]
        test = tree.tests[node]
        condition = f"{self.facts[self.test_facts[test]].name} > {self.thresholds[test]}"
        return [f"{indent}if {condition}:", *yes, f"{indent}else:", *no]


def price(fact: Fact) -> int:
    """About how many bytes a fact takes in a file of C."""
    return FACT_BYTES + 2 * len(fact.expression.text)


def _within(numbers: NDArray[np.int64], count: int) -> bool:
    return bool(((numbers >= 0) & (numbers < count)).all())


_Whole = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _FactContent(_Part):
    name: str
    text: str


class _TreeContent(_Part):
    scale: _Whole
    tests: list[_Whole] = Field(max_length=1 << DEEPEST)
    leaves: list[_Whole] = Field(max_length=MOST_MEMBERS << DEEPEST)


class _Content(_Part):
    members: int = Field(ge=1, le=MOST_MEMBERS)
    sure: int = Field(ge=0, le=LARGEST)
    facts: list[_FactContent] = Field(max_length=MOST_FACTS)
    test_facts: list[_Whole] = Field(max_length=MOST_TESTS)
    thresholds: list[_Whole] = Field(max_length=MOST_TESTS)
    trees: list[_TreeContent] = Field(max_length=LONGEST_RULE)

    def rule(self) -> Rule:
        """The rule. Raises FormatError and ExpressionError."""
        if any(len(tree.leaves) % self.members for tree in self.trees):
            raise FormatError("a leaf of the rule has not a number for each member")
        facts = tuple(Fact(fact.name, Expression(fact.text)) for fact in self.facts)
        trees = tuple(Tree(np.array(tree.tests, np.int64),
                           np.array(tree.leaves, np.int64).reshape(-1, self.members), tree.scale)
                      for tree in self.trees)
        return Rule(self.members, facts, np.array(self.test_facts, np.int64), np.array(self.thresholds, np.int64),
                    trees, self.sure)


def learn_rule(values: NDArray[np.int64], slowness: Floats, weights: Floats, goal: Goal, facts: Sequence[Fact], *,
               room: int = ROOM, seed: int = 0) -> Rule:
    """Learn a rule of at most about `room` bytes in a file, from shapes whose slowness is known; the smallest good one.

    That is one small tree, or boosted trees where these lose less on shapes that they did not see. The rule has those
    of the facts that its trees read, so a shape's values are those of `rule.facts`. Raises MisuseError.

    Shapes: `values` (shape, fact), `slowness` (shape, member), log(time / best time), `weights` (shape,).
    """
    count, members = slowness.shape
    if not count or len(values) != count or not np.isfinite(slowness).all():
        raise MisuseError(f"a rule needs the slowness of every member at every shape (found {slowness.shape})")
    if members == 1 or not len(facts) or np.ptp(goal.stakes(slowness), axis=1).max() <= 0:
        return Rule(members, (), np.empty(0, np.int64), np.empty(0, np.int64), ())
    learner = _Learner(values, slowness, weights, goal, facts, room, seed)
    rule = learner.learn(learner.cross_fit(FOLDS)[0] if count <= MANY else "boosted", np.arange(count))
    least = np.sort(rule.scores(_columns(values, facts, rule)), axis=1)
    leads = least[:, 1] - least[:, 0]
    order = np.argsort(leads, kind="stable")
    place = int(np.searchsorted(np.cumsum(weights[order]), UNSURE * weights.sum()))
    return replace(rule, sure=int(leads[order[min(place, count - 1)]]))


@dataclass(frozen=True, eq=False)
class _Learner:
    """Learns rules of two kinds from some of the shapes: "single" is one small tree, "boosted" as many as have room."""

    values: NDArray[np.int64]
    slowness: Floats
    weights: Floats
    goal: Goal
    facts: Sequence[Fact]
    room: int
    seed: int

    def learn(self, kind: str, rows: Whole) -> Rule:
        """Learn a rule from the shapes `rows`."""
        values, members = self.values[rows], self.slowness.shape[1]
        losses = Losses.of(self.goal.stakes(self.slowness[rows]), self.weights[rows])
        prices = np.array([price(fact) for fact in self.facts], np.int64)
        tests = choose_tests(values, losses, prices, SINGLE_BYTES if kind == "single" else self.room // 2, self.seed)
        trees = []
        if kind == "single":
            trees = [single(tests.hold(values), losses)]
        elif len(tests):
            room = self.room - int(prices[np.unique(tests.facts)].sum()) - TEST_BYTES * len(tests)
            width = 1 if len(tests) <= DIGITS else 2
            for depth in reversed(range(1, deepest(len(values)) + 1)):  # the deepest of which there is room for a few
                each = ((1 << depth) - 1) * width + (1 << depth) * ((members + 1) // 2) + TREE_BYTES
                count = max(1, min(MOST_TREES, room // each))
                if count >= FEWEST_TREES:
                    break
            trees = boost(tests.hold(values), losses, count, depth, self.seed)
        return _numbered(members, self.facts, tests, trees)

    def cross_fit(self, count: int) -> tuple[str, NDArray[np.int64]]:
        """The kind that loses less on shapes that it did not see, the smaller one if hardly more; and its choices.

        They are the first and the second member of each shape, by rules learned without its fold: (shape, 2).
        """
        shapes = len(self.values)
        folds = np.random.default_rng(self.seed).permutation(shapes) % min(count, shapes)
        best, least = "", np.inf
        enough = self.goal.loss(self.slowness.min(axis=1), self.weights) + LEAST_GAIN
        for kind in ("single", "boosted") if shapes <= MANY else ("boosted",):
            picks = np.tile(np.array([0, 1]), (shapes, 1))
            for number in range(folds.max() + 1):
                held, rest = folds == number, np.flatnonzero(folds != number)
                if len(rest):
                    rule = self.learn(kind, rest)
                    picks[held] = rule.order(_columns(self.values[held], self.facts, rule))[:, :2]
            loss = self.goal.loss(self.slowness[np.arange(shapes), picks[:, 0]], self.weights)
            if loss < least - LEAST_GAIN:
                best, least, chosen = kind, loss, picks
            if loss <= enough:
                break
        return best, chosen


def _columns(values: NDArray[np.int64], facts: Sequence[Fact], rule: Rule) -> NDArray[np.int64]:
    """The values of the rule's own facts."""
    return values[:, [facts.index(fact) for fact in rule.facts]]


def _numbered(members: int, facts: Sequence[Fact], tests: Tests, trees: Sequence[Tree]) -> Rule:
    """The rule of these trees, without the tests and facts that no tree reads."""
    used = np.unique(np.concatenate([np.empty(0, np.int64), *(tree.tests for tree in trees)]))
    own = tests.take(used)
    kept = np.unique(own.facts)
    numbered = (replace(tree, tests=np.searchsorted(used, tree.tests)) for tree in trees)
    return Rule(members, tuple(facts[fact] for fact in kept.tolist()), np.searchsorted(kept, own.facts),
                own.thresholds, tuple(numbered))


def cross_fitted(values: NDArray[np.int64], slowness: Floats, weights: Floats, goal: Goal, facts: Sequence[Fact],
                 folds: int = 5, seed: int = 0, *, room: int = ROOM) -> NDArray[np.int64]:
    """The members that a rule learned without the shape's fold puts first and second: (shape, 2).

    With a single member, both are member 0.
    """
    count, members = slowness.shape
    if members == 1 or not len(facts):
        return np.tile(np.array([0, min(1, members - 1)]), (count, 1))
    return _Learner(values, slowness, weights, goal, facts, room, seed).cross_fit(folds)[1]
