"""Rule: from the facts of a shape to an order of the members, by a few small trees of whole numbers.

The score of a member is the sum of what the trees say of it, and the lowest score comes first. Everything is whole
numbers, so a file in C, a Python module and NumPy give the same order for every shape.

The node of number i of a tree has the children 2 i + 1, where its test does not hold, and 2 i + 2, where it holds; a
tree of depth 2 has the nodes 0, 1 and 2, and after them the leaves 0 to 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from seqtune.errors import FormatError

from .facts import LARGEST, Fact

Whole = NDArray[np.int64]
Number = Annotated[int, Field(strict=True, ge=-LARGEST, le=LARGEST)]

# Limits of a file that may come from anywhere; rules that are learned have at most 300 tests and 40 trees. In C, two
# characters number a test, which is enough for 8,281.
MOST_MEMBERS, MOST_TESTS, MOST_TREES, DEEPEST = 64, 8000, 10_000, 10
LEVELS = 4  # a number of a leaf is from -LEVELS to LEVELS, so that one character of a file holds two of them
LARGEST_SCALE = 1 << 40  # with it, the sum over MOST_TREES trees stays below FAR
FAR = 1 << 62  # the score of a member that is not valid


@dataclass(frozen=True, slots=True)
class Tree:
    """A complete tree of numbers that are added to the scores of all members."""

    tests: tuple[Number, ...]  # (node,) number of the rule's test at each node
    leaves: tuple[tuple[Number, ...], ...]  # (leaf, member) a score changes by `scale` times that
    scale: Number = 1


@dataclass(frozen=True)
class Rule:
    """Trees over tests of facts: test i holds if the fact of the number tests[i][0] is greater than tests[i][1]."""

    members: int
    facts: tuple[Fact, ...] = ()
    tests: tuple[tuple[Number, Number], ...] = ()
    trees: tuple[Tree, ...] = ()
    sure: Number = 0  # the least lead of the first over the second, as a difference of scores, at which it is sure

    def __post_init__(self) -> None:
        if not (0 < self.members <= MOST_MEMBERS and len(self.tests) <= MOST_TESTS and len(self.trees) <= MOST_TREES
                and self.sure >= 0 and all(0 <= fact < len(self.facts) for fact, _ in self.tests)
                and all(map(self._holds, self.trees))):
            raise FormatError("the rule is inconsistent: it has too many or too few parts, an incomplete tree, or a "
                              "number that is out of range; dispatch anew")

    def _holds(self, tree: Tree) -> bool:
        """Whether a tree is complete, and its numbers are in range."""
        count = len(tree.leaves)
        return (1 <= count <= 1 << DEEPEST and not count & (count - 1) and len(tree.tests) == count - 1
                and all(0 <= test < len(self.tests) for test in tree.tests) and 0 < tree.scale <= LARGEST_SCALE
                and all(len(leaf) == self.members and max(map(abs, leaf)) <= LEVELS for leaf in tree.leaves))

    def scores(self, values: Whole) -> Whole:
        """The score of every member; lower is better. Shapes: `values` (shape, fact) to (shape, member)."""
        facts, thresholds = np.array(self.tests, np.int64).reshape(-1, 2).T
        holds, rows = values[:, facts] > thresholds, np.arange(len(values))
        scores = np.zeros((len(values), self.members), np.int64)
        for tree in self.trees:
            tests, leaves, node = np.array(tree.tests, np.int64), np.array(tree.leaves), np.zeros(len(values), np.int64)
            while len(rows) and node[0] < len(tests):
                node = 2 * node + 1 + holds[rows, tests[node]]
            scores += tree.scale * leaves[node - len(tests)]
        return scores

    def leads(self, scores: Whole) -> Whole:
        """The lead of the best score over the second one: (shape, member) to (shape,); LARGEST for one member."""
        if self.members == 1:
            return np.full(len(scores), LARGEST)
        least = np.partition(scores, 1, axis=1)
        return np.asarray(least[:, 1] - least[:, 0])

    def text(self, names: Sequence[str]) -> str:
        """The rule as text that people read: conditions of one tree, or the number of the trees and their facts.

        `names` are those of the members.
        """
        if not self.trees:
            return f"always {names[0]}"
        if len(self.trees) == 1:
            return "\n".join(self._lines(self.trees[0], 0, names))
        used = Counter(self.facts[self.tests[test][0]].name for tree in self.trees for test in tree.tests)
        return f"{len(self.trees)} trees, of {', '.join(name for name, _ in used.most_common())}"

    def _lines(self, tree: Tree, node: int, names: Sequence[str]) -> list[str]:
        """The lines of a node of the only tree; branches that end in the same member are one."""
        if node >= len(tree.tests):
            return [names[int(np.argmin(tree.leaves[node - len(tree.tests)]))]]
        no, yes = (self._lines(tree, 2 * node + side, names) for side in (1, 2))
        if no == yes:
            return no
        fact, threshold = self.tests[tree.tests[node]]
        return [f"if {self.facts[fact].name} > {threshold}:", *(f"    {line}" for line in yes),
                "else:", *(f"    {line}" for line in no)]
