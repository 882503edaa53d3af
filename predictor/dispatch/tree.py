"""Tree: a small complete decision tree of whole numbers, which NumPy, plain Python and C walk alike.

The node of number i has the children 2 i + 1, where its test does not hold, and 2 i + 2, where it holds; a tree of
depth 2 has the nodes 0, 1 and 2, and after them the leaves 0 to 3. A tree that is not complete repeats leaves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import FormatError

Whole = NDArray[np.int64]

DEEPEST = 10  # of a tree; 1,024 leaves
DIGITS = 91  # printable characters that need no escape in a string of C
LEVELS = 4  # a number of a leaf is from -LEVELS to LEVELS, so that one digit holds two of them
PER_LEVEL = 2 * LEVELS + 1
LARGEST_SCALE = 1 << 40
_SPARE = ord("!")  # in place of "?", of which C may make trigraphs


@dataclass(frozen=True, eq=False)
class Tree:
    """Whole numbers that are added to the scores of all members."""

    tests: Whole  # (node,) number of the rule's test at each node: 2**depth - 1 of them, none for a single leaf
    leaves: Whole  # (2**depth, member) each in -LEVELS..LEVELS; a score changes by `scale` times that
    scale: int = 1

    def __post_init__(self) -> None:
        count = len(self.leaves)
        if not 1 <= count <= 1 << DEEPEST or count & (count - 1) or self.tests.shape != (count - 1,):
            raise FormatError(f"a tree of {count} leaves and {len(self.tests)} nodes is not complete")
        if np.abs(self.leaves).max(initial=0) > LEVELS:
            raise FormatError(f"a leaf of a tree has a number that is not from {-LEVELS} to {LEVELS}")
        if not 0 < self.scale <= LARGEST_SCALE:
            raise FormatError(f"a tree has the scale {self.scale}")

    @property
    def depth(self) -> int:
        """The number of tests from the root to a leaf."""
        return len(self.leaves).bit_length() - 1

    def leaf_of(self, holds: NDArray[np.bool_]) -> Whole:
        """The number of the leaf of each shape. Shapes: `holds` (shape, test) to (shape,)."""
        rows, node = np.arange(len(holds)), np.zeros(len(holds), np.int64)
        for _ in range(self.depth):
            node = 2 * node + 1 + holds[rows, self.tests[node]]
        return node - len(self.tests)


def leaf_digits(leaves: Whole) -> Whole:
    """Two numbers of a leaf in each digit, the last one alone where they are odd: (leaf, member) to (leaf, digit)."""
    raised = np.pad(leaves + LEVELS, ((0, 0), (0, leaves.shape[1] % 2)))
    return np.asarray(raised[:, ::2] * PER_LEVEL + raised[:, 1::2])


def digits(numbers: Iterable[int], width: int = 1) -> str:
    """Numbers from 0 as text, each in `width` characters, the greatest digit first.

    A character stands for a digit from 0 to 90: its code less 35, less one more above 92 (a backslash); "!" stands for
    28 (a question mark). None of them needs an escape in C, Python or JSON.
    """
    text = []
    for number in numbers:
        for place in reversed(range(width)):
            code = 35 + number // DIGITS**place % DIGITS
            code += code >= ord("\\")
            text.append(chr(_SPARE if code == ord("?") else code))
    return "".join(text)
