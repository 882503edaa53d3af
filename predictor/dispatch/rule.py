"""Rule: from the facts of a shape to an order of the members, by a few small trees of whole numbers.

The score of a member is the sum of what the trees say of it, and the lowest score comes first. Everything is whole
numbers, so a file in C, a Python module and NumPy give the same order for every shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.expression import Expression
from seqtune.kernels.task import Floats

from .facts import LARGEST, Fact
from .goal import Goal
from .growth import grow
from .tree import DIGITS, MIDDLE, Tree, Whole, digits, numbers_of

MOST_MEMBERS, MOST_FACTS, MOST_TREES = 64, 1000, 10_000
MOST_TESTS = DIGITS**2  # of which two digits hold the number


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
        if not 0 < self.members <= MOST_MEMBERS or len(self.trees) > MOST_TREES or tests > MOST_TESTS:
            raise FormatError(f"a rule of {self.members} members, {len(self.trees)} trees and {tests} tests is too "
                              "large, or has no member")
        if self.test_facts.shape != self.thresholds.shape or not _within(self.test_facts, len(self.facts)):
            raise FormatError("a test of the rule reads a fact that it does not have")
        for tree in self.trees:
            if not _within(tree.tests, tests) or not _within(np.array(tree.members, np.int64), self.members):
                raise FormatError("a tree of the rule has a test or a member that the rule does not have")

    def scores(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The score of every member; lower is better. Shapes: `values` (shape, fact) to (shape, member)."""
        holds = values[:, self.test_facts] > self.thresholds
        scores = np.zeros((len(values), self.members), np.int64)
        for tree in self.trees:
            scores[:, tree.members] += tree.scale * tree.leaves[tree.leaf_of(holds)]
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
        """The tests and then the leaves of each tree as `digits`: tests in `width` of them, leaves plus MIDDLE in one.
        """
        return [digits(tree.tests.tolist(), self.width) + digits((tree.leaves + MIDDLE).ravel().tolist())
                for tree in self.trees]

    @property
    def bytes(self) -> int:
        """About how many bytes the facts, tests and trees take in a file of C."""
        facts = sum(len(fact.name) + 2 * len(fact.expression.text) + 40 for fact in self.facts)
        tests = sum(len(str(threshold)) + 1 for threshold in self.thresholds.tolist()) + 2 * len(self.thresholds)
        return facts + tests + sum(len(text) + 4 for text in self.tree_texts())

    def to_json(self) -> dict[str, Any]:
        """The rule as JSON, which `from_json` reads."""
        return {"members": self.members, "sure": self.sure,
                "facts": [[fact.name, fact.expression.text] for fact in self.facts],
                "tests": [[fact, threshold] for fact, threshold in zip(
                    self.test_facts.tolist(), self.thresholds.tolist(), strict=True)],
                "trees": [[list(tree.members), tree.scale, text] for tree, text in zip(
                    self.trees, self.tree_texts(), strict=True)]}

    @classmethod
    def from_json(cls, content: object) -> Rule:
        """The inverse of `to_json`; the content may come from anywhere. Raises FormatError and ExpressionError."""
        if not isinstance(content, Mapping):
            raise FormatError("a rule is an object of JSON")
        facts = [Fact(name, Expression(text)) for name, text in _rows(content, "facts", (str, str), MOST_FACTS)]
        tests = _rows(content, "tests", (int, int), MOST_TESTS)
        width = 1 if len(tests) <= DIGITS else 2
        trees = [_tree(members, scale, text, width)
                 for members, scale, text in _rows(content, "trees", (list, int, str), MOST_TREES)]
        members, sure = content.get("members"), content.get("sure")
        if type(members) is not int or type(sure) is not int or abs(sure) > LARGEST:
            raise FormatError("`members` and `sure` of a rule are whole numbers")
        if any(abs(number) > LARGEST for test in tests for number in test):
            raise FormatError("a threshold of a rule has more than 62 bits")
        pairs = np.array(tests, np.int64).reshape(-1, 2)
        return cls(members, tuple(facts), pairs[:, 0], pairs[:, 1], tuple(trees), sure)

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
            scores = np.full(self.members, 0)
            scores[list(tree.members)] = tree.leaves[node - len(tree.tests)]
            return [f"{indent}{names[int(np.argmin(scores))]}"]
        inner = f"{indent}    "
        no, yes = (self._lines(tree, 2 * node + side, names, inner) for side in (1, 2))
        if no == yes:
            return [line.removeprefix("    ") for line in no]
        test = tree.tests[node]
        condition = f"{self.facts[self.test_facts[test]].name} > {self.thresholds[test]}"
        return [f"{indent}if {condition}:", *yes, f"{indent}else:", *no]


def _within(numbers: NDArray[np.int64], count: int) -> bool:
    return bool(((numbers >= 0) & (numbers < count)).all())


def _rows(content: Mapping[str, Any], name: str, kinds: tuple[type, ...], most: int) -> list[Any]:
    """The rows of a list of JSON, each of values of these types. Raises FormatError."""
    rows = content.get(name)
    if not isinstance(rows, list) or len(rows) > most or not all(
            isinstance(row, list) and tuple(map(type, row)) == kinds for row in rows):
        words = ", ".join(kind.__name__ for kind in kinds)
        raise FormatError(f"`{name}` of a rule is a list of at most {most} rows of {words}")
    return rows


def _tree(members: list[Any], scale: int, text: str, width: int) -> Tree:
    if not 0 < len(members) <= MOST_MEMBERS or any(type(member) is not int for member in members):
        raise FormatError("a tree of the rule has no list of members")
    leaves = 1  # text of a tree with n leaves: (n - 1) width + n members
    while (leaves - 1) * width + leaves * len(members) < len(text):
        leaves *= 2
    nodes = (leaves - 1) * width
    if nodes + leaves * len(members) != len(text):
        raise FormatError(f"a tree of {len(text)} digits is not complete")
    scores = np.array(numbers_of(text[nodes:]), np.int64).reshape(leaves, len(members)) - MIDDLE
    return Tree(tuple(members), np.array(numbers_of(text[:nodes], width), np.int64), scores, scale)


def learn_rule(values: NDArray[np.int64], slowness: Floats, weights: Floats, goal: Goal, facts: Sequence[Fact], *,
               bytes: int = 16_000, seed: int = 0) -> Rule:
    """Learn a rule of at most `bytes` from shapes whose slowness is known.

    Shapes: `values` (shape, fact), `slowness` (shape, member), log(time / best time), `weights` (shape,).
    """
    if not len(values) or slowness.shape != (len(values), slowness.shape[1]) or not np.isfinite(slowness).all():
        raise MisuseError(f"a rule needs the slowness of every member at every shape (found {slowness.shape})")
    return _rule(slowness.shape[1], facts, grow(values, goal.stakes(slowness), weights))


def _rule(members: int, facts: Sequence[Fact], trees: Sequence[tuple[Tree, list[tuple[int, int]]]]) -> Rule:
    """The rule of trees whose tests are pairs of fact and threshold; facts that no tree reads are left out."""
    tests = sorted({test for _, own in trees for test in own})
    used = sorted({fact for fact, _ in tests})
    number = {test: index for index, test in enumerate(tests)}
    numbered = tuple(Tree(tree.members, np.array([number[own[test]] for test in tree.tests.tolist()], np.int64),
                          tree.leaves, tree.scale) for tree, own in trees)
    return Rule(members, tuple(facts[fact] for fact in used),
                np.array([used.index(fact) for fact, _ in tests], np.int64),
                np.array([threshold for _, threshold in tests], np.int64), numbered)


def cross_fitted(values: NDArray[np.int64], slowness: Floats, weights: Floats, goal: Goal, facts: Sequence[Fact],
                 folds: int = 5, seed: int = 0) -> NDArray[np.int64]:
    """The members that a rule learned without the shape's fold puts first and second: (shape, 2).

    With a single member, both are member 0.
    """
    count = len(values)
    firsts = np.zeros((count, 2), np.int64)
    if slowness.shape[1] == 1:
        return firsts
    fold = np.random.default_rng(seed).permutation(count) % min(folds, count)
    for number in range(min(folds, count)):
        held, rest = fold == number, fold != number
        if rest.any():
            rule = learn_rule(values[rest], slowness[rest], weights[rest], goal, facts, seed=seed)
            kept = [facts.index(fact) for fact in rule.facts]
            firsts[held] = rule.order(values[np.ix_(held, np.array(kept, np.int64))])[:, :2]
    return firsts
