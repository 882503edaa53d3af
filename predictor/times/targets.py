"""Targets: what the translator should say after every prefix, so that running close to the best is close to right.

A task's configurations get a probability by how fast they run: p ~ exp(-(time/best - 1) / tau). Rows of a space are
sorted, so configurations that share a prefix are one row range; the wanted probability of a next word is the sum of p
over its part of that range, divided by the sum over the range. Words outside the range are not scored at all: at
prediction the exact look-ahead rules them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.task import Floats, Task

from ..sequence.derived_quantities import Quantities, Settled
from ..sequence.vocabulary import BEGIN, PAD, Vocabulary, Words

LEAST = 500.0  # exponents are capped here: exp(-500) is still a number, so every prefix has a distribution


def probabilities(slowness: Floats, tau: float) -> Floats:
    """p ~ exp(-slowness / tau), summing to 1; slowness is time/best - 1, infinite for a failure.

    At tau = 0.04 a configuration 4 % slower than the best has e times less, one 20 % slower 150 times less.
    """
    weights = np.exp(-np.minimum((slowness - slowness.min()) / tau, LEAST))
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True, slots=True)
class Examples:
    """Sentences to learn from. The wanted next words are sparse: `share[i]` belongs to word `word[i]` after the first
    `step[i]` words of sentence `sentence[i]`; the words listed for one (sentence, step) are all that may follow.
    With each word go the quantities that are settled once it is said."""

    words: Words  # (sentence, step) <pad> after the end
    settled: Quantities  # (sentence, step, derived) by `words`
    sentence: NDArray[np.int64]
    step: NDArray[np.int64]
    word: NDArray[np.int64]
    share: NDArray[np.float32]
    quantities: Quantities  # (row, derived) by `word`

    @property
    def inputs(self) -> Words:
        """What the decoder reads: <begin>, then the words but the last. (sentence, step)"""
        begin = np.full((len(self.words), 1), BEGIN, np.int64)
        return np.concatenate([begin, self.words[:, :-1]], axis=1)

    @property
    def inputs_settled(self) -> Quantities:
        """What is settled by the words that the decoder reads. (sentence, step, derived)"""
        return np.concatenate([np.full_like(self.settled[:, :1], np.nan), self.settled[:, :-1]], axis=1)

    @classmethod
    def joined(cls, parts: Sequence[Examples]) -> Examples:
        """All of them, sentences renumbered."""
        offsets = np.cumsum([0, *(len(part.words) for part in parts)])
        return cls(
            np.concatenate([part.words for part in parts]), np.concatenate([part.settled for part in parts]),
            np.concatenate([part.sentence + offset for part, offset in zip(parts, offsets, strict=False)]),
            np.concatenate([part.step for part in parts]), np.concatenate([part.word for part in parts]),
            np.concatenate([part.share for part in parts]), np.concatenate([part.quantities for part in parts]))


@dataclass(frozen=True, slots=True)
class _Level:
    """The prefixes of one length in one space: each one's last word, first longer prefix, and share of its parent."""

    starts: NDArray[np.int32]  # (prefix,) first row
    children: NDArray[np.int32]  # (prefix + 1,) first prefix of the next level
    words: NDArray[np.int32]  # (prefix,)
    shares: NDArray[np.float32]  # (prefix,)

    @classmethod
    def of(cls, starts: Words, children: Words, words: Words, shares: NDArray[np.float32]) -> _Level:
        """In short numbers, since thousands of trees are kept."""
        return cls(starts.astype(np.int32), children.astype(np.int32), words.astype(np.int32), shares)


class Tree:
    """All prefixes of a task's spaces with the wanted probability of each next word. `slowness`: (row,)"""

    def __init__(self, task: Task, slowness: Floats, vocabulary: Vocabulary, tau: float, hot: float = 4.0) -> None:
        self.longest, self._derived = vocabulary.longest, len(vocabulary.derived)
        p = probabilities(slowness, tau)
        self._draw = np.cumsum(p)
        self._explore = np.cumsum(probabilities(slowness, tau * hot))
        self._offsets = np.cumsum([0, *map(len, task.spaces)])
        self._kernels = np.array([vocabulary.kernel(space.kernel.name) for space in task.spaces])
        self._levels: list[list[_Level]] = []
        self._settled = [Settled(space, vocabulary) for space in task.spaces]
        self._kernel_settled = np.concatenate([settled.after(np.zeros(1, np.int64), -1) for settled in self._settled])
        masses = [p[first:last] for first, last in zip(self._offsets, self._offsets[1:], strict=False)]
        self._kernel_shares = np.array([mass.sum() for mass in masses], np.float32)
        for space, mass in zip(task.spaces, masses, strict=True):
            rows, places = space.rows, vocabulary.places(space.kernel.name)
            new = np.zeros(len(rows), bool)
            new[0] = True
            starts, sums, levels = np.zeros(1, np.int64), np.array([mass.sum()]), []
            words, shares = self._kernels[:1], np.ones(1, np.float32)
            for column in range(rows.shape[1]):
                new[1:] |= rows[1:, column] != rows[:-1, column]
                following = np.flatnonzero(new)
                children = np.append(np.searchsorted(following, starts), len(following))
                levels.append(_Level.of(starts, children, words, shares))
                below = np.add.reduceat(mass, following)
                parents = np.repeat(np.arange(len(starts)), np.diff(children))
                words = places[column][rows[following, column]]
                shares = (below / sums[parents]).astype(np.float32)
                starts, sums = following, below
            levels.append(_Level.of(starts, np.zeros(0, np.int64), words, shares))
            self._levels.append(levels)

    def digest(self) -> bytes:
        """Changes when the wanted probabilities do."""
        return np.round(self._draw, 9).tobytes()

    def sample(self, generator: np.random.Generator, count: int, explore: float) -> Examples:
        """`count` sentences drawn by the wanted probability, a share `explore` of them from a hotter one, so that the
        second-best prefixes, which a beam also visits, are learned too."""
        hot = generator.random(count) < explore
        drawn = generator.random(count)
        rows = np.where(hot, np.searchsorted(self._explore, drawn * self._explore[-1]),
                        np.searchsorted(self._draw, drawn * self._draw[-1]))
        return self.examples(np.minimum(rows, len(self._draw) - 1))

    def examples(self, rows: NDArray[np.int64]) -> Examples:
        """The sentences of these rows with the wanted next words at each step."""
        count = len(rows)
        words = np.full((count, self.longest), PAD, np.int64)
        spaces = np.searchsorted(self._offsets, rows, side="right") - 1
        words[:, 0] = self._kernels[spaces]
        said = np.full((count, self.longest, self._derived), np.nan, np.float32)
        said[:, 0] = self._kernel_settled[spaces]
        families = len(self._kernels)
        sentence = [np.repeat(np.arange(count), families)]
        step = [np.zeros(count * families, np.int64)]
        word, share = [np.tile(self._kernels, count)], [np.tile(self._kernel_shares, count)]
        quantities = [np.tile(self._kernel_settled, (count, 1))]
        for number, levels in enumerate(self._levels):
            mine = np.flatnonzero(spaces == number)
            if not len(mine):
                continue
            local, settled = rows[mine] - self._offsets[number], self._settled[number]
            for column, (level, below) in enumerate(pairwise(levels)):
                prefix = np.searchsorted(level.starts, local, side="right") - 1
                first, last = level.children[prefix], level.children[prefix + 1]
                lengths = last - first
                at = np.repeat(last - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
                sentence.append(np.repeat(mine, lengths))
                step.append(np.full(len(at), column + 1, np.int64))
                word.append(below.words[at].astype(np.int64))
                share.append(below.shares[at])
                quantities.append(settled.after(below.starts[at], column))
                words[mine, column + 1] = below.words[np.searchsorted(below.starts, local, side="right") - 1]
                said[mine, column + 1] = settled.after(local, column)
        return Examples(words, said, np.concatenate(sentence), np.concatenate(step), np.concatenate(word),
                        np.concatenate(share), np.concatenate(quantities))
