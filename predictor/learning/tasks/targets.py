"""Targets: the wanted probability of each next word after every prefix, computed from times.

The wanted probability of a configuration depends on its time: p ~ exp(-(time/best - 1) / tau), so nearly equal times
have nearly equal probabilities. Rows of a space are sorted, so the configurations with a common prefix are a range of
rows. The wanted probability of a next word is the sum of p over its part of that range, divided by the sum over the
range. Words outside the range are not scored: prediction excludes them by exact look-ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Floats, Task

from ...sequence.grammar import Quantities, ResolvedByRow
from ...sequence.vocabulary import BEGIN, PAD, Vocabulary, Words

ESTIMATED = 0.3  # weight of a time that the teacher estimated, for the judge; its errors are the teacher's
WORST = 20.0  # larger logarithms count as this for the judge; that of a failure is infinite
HOT = 4.0  # factor on tau for the sentences that are drawn to explore
MAX_EXPONENT = 500.0  # larger exponents count as this: exp(-500) is positive, so every prefix has a distribution


def probabilities(slowness: Floats, tau: float) -> Floats:
    """The wanted probabilities exp(-slowness / tau), normalised; slowness is time/best - 1, infinite for a failure.

    At tau = 0.04 a configuration 4 % slower than the best is e times less probable, one 20 % slower 150 times less.
    """
    weights = np.exp(-np.minimum((slowness - slowness.min()) / tau, MAX_EXPONENT))
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True, slots=True)
class TargetSentences:
    """Target sentences to learn from, with the wanted probabilities of their next words.

    The next words are sparse: `share[i]` is the probability of word `word[i]` after the first `step[i]` words of
    sentence `sentence[i]`. For each (sentence, step) all words that may follow are listed, each with the derived
    quantities that are resolved once it is added.
    """

    words: Words  # (sentence, step) <pad> after the end
    resolved: Quantities  # (sentence, step, derived) resolved by `words`
    sentence: NDArray[np.int64]  # (next word,)
    step: NDArray[np.int64]  # (next word,)
    word: NDArray[np.int64]  # (next word,)
    share: NDArray[np.float32]  # (next word,)
    quantities: Quantities  # (next word, derived) resolved by `word`

    @property
    def inputs(self) -> Words:
        """The words that the decoder reads: <begin>, then all words but the last. (sentence, step)"""
        begin = np.full((len(self.words), 1), BEGIN, np.int64)
        return np.concatenate([begin, self.words[:, :-1]], axis=1)

    @property
    def inputs_resolved(self) -> Quantities:
        """The quantities that are resolved by the words that the decoder reads. (sentence, step, derived)"""
        return np.concatenate([np.full_like(self.resolved[:, :1], np.nan), self.resolved[:, :-1]], axis=1)

    @classmethod
    def joined(cls, parts: Sequence[TargetSentences]) -> TargetSentences:
        """Join several batches of sentences and renumber the sentences."""
        offsets = np.cumsum([0, *(len(part.words) for part in parts)])
        return cls(
            np.concatenate([part.words for part in parts]), np.concatenate([part.resolved for part in parts]),
            np.concatenate([part.sentence + offset for part, offset in zip(parts, offsets, strict=False)]),
            np.concatenate([part.step for part in parts]), np.concatenate([part.word for part in parts]),
            np.concatenate([part.share for part in parts]), np.concatenate([part.quantities for part in parts]))


@dataclass(frozen=True, slots=True)
class Landscape:
    """Configurations of one problem with the logarithm of their slowness, log(time / best)."""

    words: Words  # (configuration, step) <pad> after the end
    resolved: Quantities  # (configuration, derived) all derived quantities
    slowness: NDArray[np.float32]  # (configuration,)
    weight: NDArray[np.float32]  # (configuration,) 1 if measured, ESTIMATED if not, 0 for padding


@dataclass(frozen=True, slots=True)
class _Prefixes:
    """The prefixes of one length in one space, in the order of their rows."""

    starts: NDArray[np.int32]  # (prefix,) first row
    children: NDArray[np.int32]  # (prefix + 1,) index of the first prefix that is one word longer
    words: NDArray[np.int32]  # (prefix,) last word
    shares: NDArray[np.float32]  # (prefix,) wanted probability of the last word after the words before it

    @classmethod
    def of(cls, starts: Words, children: Words, words: Words, shares: NDArray[np.float32]) -> _Prefixes:
        """The prefixes with 32-bit numbers, since training keeps thousands of trees."""
        return cls(starts.astype(np.int32), children.astype(np.int32), words.astype(np.int32), shares)


@dataclass(frozen=True, slots=True)
class _ResolvedTable:
    """The numeric quantities of all rows of a space: training asks for them again and again."""

    values: NDArray[np.float16]  # (row, quantity) their log2
    indices: NDArray[np.int64]  # (quantity,) among those of the vocabulary
    columns: NDArray[np.int64]  # (quantity,) whose word resolves it, -1: the kernel's
    width: int  # quantities of the vocabulary

    @classmethod
    def of(cls, space: SearchSpace, vocabulary: Vocabulary) -> _ResolvedTable:
        """Compute all quantities of a space."""
        resolved = ResolvedByRow(space, vocabulary)
        indices, values = resolved.complete(np.arange(len(space)))
        columns = {index: column for column, wanted in resolved.by_column.items() for index in wanted.values()}
        return cls(values.astype(np.float16), np.array(indices, np.int64),
                   np.array([columns[index] for index in indices], np.int64), len(vocabulary.derived))

    def after(self, rows: NDArray[np.int64], column: int) -> Quantities:
        """The quantities that prefixes resolve, (row, derived); a row has each, and the word in `column` ends it."""
        quantities = np.full((len(rows), self.width), np.nan, np.float32)
        resolved = self.columns <= column
        quantities[:, self.indices[resolved]] = self.values[rows][:, resolved]
        return quantities


class PrefixTree:
    """All prefixes of a task's sentences with the wanted probability of each next word.

    `slowness` is time/best - 1 of each configuration. HOT multiplies `tau` for the sentences drawn to explore.
    `known` marks the configurations whose time was measured.
    """

    def __init__(self, task: Task, slowness: Floats, vocabulary: Vocabulary, tau: float,
                 known: NDArray[np.bool_] | None = None) -> None:
        self.longest, self._derived = vocabulary.longest, len(vocabulary.derived)
        p = probabilities(slowness, tau)
        self._draw = np.cumsum(p)
        self._slowness = np.minimum(np.log1p(slowness), WORST).astype(np.float32)
        self._known = np.flatnonzero(np.zeros(len(slowness), bool) if known is None else known).astype(np.int32)
        self._explore = np.cumsum(probabilities(slowness, tau * HOT))
        self._offsets = np.cumsum([0, *map(len, task.spaces)])
        self._kernels = np.array([vocabulary.kernel(space.kernel.name) for space in task.spaces])
        self._rows = [space.rows for space in task.spaces]
        self._value_words = [vocabulary.value_words(space.kernel.name) for space in task.spaces]
        self._lengths: list[list[_Prefixes]] = []  # for each space: its prefixes by length
        self._resolved = [_ResolvedTable.of(space, vocabulary) for space in task.spaces]
        self._kernel_resolved = np.concatenate([quantities.after(np.zeros(1, np.int64), -1)
                                                for quantities in self._resolved])
        masses = [p[first:last] for first, last in zip(self._offsets, self._offsets[1:], strict=False)]
        self._kernel_shares = np.array([mass.sum() for mass in masses], np.float32)
        for space, mass in zip(task.spaces, masses, strict=True):
            rows, value_words = space.rows, vocabulary.value_words(space.kernel.name)
            new = np.zeros(len(rows), bool)
            new[0] = True
            starts, masses_here, lengths = np.zeros(1, np.int64), np.array([mass.sum()]), []
            words, shares = self._kernels[:1], np.ones(1, np.float32)
            for column in range(rows.shape[1]):
                new[1:] |= rows[1:, column] != rows[:-1, column]
                following = np.flatnonzero(new)
                children = np.append(np.searchsorted(following, starts), len(following))
                lengths.append(_Prefixes.of(starts, children, words, shares))
                below = np.add.reduceat(mass, following)
                parents = np.repeat(np.arange(len(starts)), np.diff(children))
                words = value_words[column][rows[following, column]]
                shares = (below / masses_here[parents]).astype(np.float32)
                starts, masses_here = following, below
            lengths.append(_Prefixes.of(starts, np.zeros(0, np.int64), words, shares))
            self._lengths.append(lengths)

    def digest(self) -> bytes:
        """Bytes that change when the wanted probabilities change."""
        return np.round(self._draw, 9).tobytes()

    def sample(self, generator: np.random.Generator, count: int, explore: float) -> TargetSentences:
        """Draw `count` sentences with their wanted probabilities.

        The share `explore` of them is drawn from a flatter distribution, so that the second-best prefixes, which a
        beam also visits, are learned too.
        """
        hot = generator.random(count) < explore
        drawn = generator.random(count)
        rows = np.where(hot, np.searchsorted(self._explore, drawn * self._explore[-1]),
                        np.searchsorted(self._draw, drawn * self._draw[-1]))
        return self.sentences(np.minimum(rows, len(self._draw) - 1))

    def landscape(self, generator: np.random.Generator, count: int) -> Landscape:
        """Draw `count` configurations of the whole space for the judge, each once.

        Three quarters are measured ones, if there are as many. Then come fast ones, measured or not, which are hard
        to order, and last any others.
        """
        size = len(self._draw)
        measured = generator.permutation(self._known)[:count - count // 4].tolist()
        hot = np.searchsorted(self._explore, generator.random(count // 2) * self._explore[-1])
        others = generator.integers(0, size, count)
        rows = np.array(list(dict.fromkeys([*measured, *np.minimum(hot, size - 1).tolist(), *others.tolist()]))[:count])
        words = np.full((count, self.longest), PAD, np.int64)
        resolved = np.full((count, self._derived), np.nan, np.float32)
        slowness, weight = np.zeros(count, np.float32), np.zeros(count, np.float32)
        slowness[:len(rows)] = self._slowness[rows]
        weight[:len(rows)] = np.where(np.isin(rows, self._known), 1.0, ESTIMATED)
        spaces = np.searchsorted(self._offsets, rows, side="right") - 1
        for space, quantities in enumerate(self._resolved):
            members = np.flatnonzero(spaces == space)
            if len(members):
                local, value_words = rows[members] - self._offsets[space], self._value_words[space]
                words[members, 0] = self._kernels[space]
                for column, words_of_values in enumerate(value_words):
                    words[members, column + 1] = words_of_values[self._rows[space][local, column]]
                resolved[members] = quantities.after(local, len(value_words) - 1)
        return Landscape(words, resolved, slowness, weight)

    def sentences(self, rows: NDArray[np.int64]) -> TargetSentences:
        """The sentences of these configurations with the wanted next words at each step."""
        count = len(rows)
        words = np.full((count, self.longest), PAD, np.int64)
        spaces = np.searchsorted(self._offsets, rows, side="right") - 1
        words[:, 0] = self._kernels[spaces]
        resolved = np.full((count, self.longest, self._derived), np.nan, np.float32)
        resolved[:, 0] = self._kernel_resolved[spaces]
        families = len(self._kernels)
        sentence = [np.repeat(np.arange(count), families)]
        step = [np.zeros(count * families, np.int64)]
        word, share = [np.tile(self._kernels, count)], [np.tile(self._kernel_shares, count)]
        quantities = [np.tile(self._kernel_resolved, (count, 1))]
        for space, lengths_of_space in enumerate(self._lengths):
            members = np.flatnonzero(spaces == space)
            if not len(members):
                continue
            local, quantities_of_space = rows[members] - self._offsets[space], self._resolved[space]
            for column, (prefixes, below) in enumerate(pairwise(lengths_of_space)):
                prefix = np.searchsorted(prefixes.starts, local, side="right") - 1
                first, last = prefixes.children[prefix], prefixes.children[prefix + 1]
                lengths = last - first
                at = np.repeat(last - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
                sentence.append(np.repeat(members, lengths))
                step.append(np.full(len(at), column + 1, np.int64))
                word.append(below.words[at].astype(np.int64))
                share.append(below.shares[at])
                quantities.append(quantities_of_space.after(below.starts[at], column))
                words[members, column + 1] = below.words[np.searchsorted(below.starts, local, side="right") - 1]
                resolved[members, column + 1] = quantities_of_space.after(local, column)
        return TargetSentences(words, resolved, np.concatenate(sentence), np.concatenate(step), np.concatenate(word),
                               np.concatenate(share), np.concatenate(quantities))
