"""LabelWords: the next words of a translator, mixed with those of chains of boosted trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.predictor.sequence.beam import Allowed, NextWord, Scores
from seqtune.predictor.sequence.vocabulary import Words

from .chains import ANY, Chains, Floats, tree_columns
from .source_columns import Pair


@dataclass(frozen=True, eq=False)
class LabelState:
    """The state of a beam search."""

    translated: Any  # the translator's state
    columns: Floats  # (query, feature)
    owners: NDArray[np.int64]  # (hypothesis,) number of its query
    names: Sequence[tuple[str, str]]  # (hypothesis,) of its device and its kernel, "" before the kernel's word
    indices: NDArray[np.int64]  # (hypothesis, parameter so far) index of the chosen value


class LabelWords:
    """A source of next words (`NextWord`): the weighted mean of two log-probabilities, a translator's and the trees'.

    The trees' are the mean over the chains of the device and of ANY, or else of another device. They have no opinion on
    the kernel's word and on kernels without a chain. `weight` is theirs, from 0 to 1, and `weights` the same by kernel.
    """

    def __init__(self, translator: NextWord[Any], chains: Chains, weight: float, weights: Mapping[str, float]) -> None:
        self.vocabulary, self._translator, self._chains = translator.vocabulary, translator, chains
        self._fallbacks = {kernel: chain for (_, kernel), chain in chains.items()}
        self._weights = {kernel: weights.get(kernel, weight) for kernel in self._fallbacks}
        self._index_of: dict[str, tuple[Words, ...]] = {}  # by kernel, for each parameter: word -> value index or -1
        for kernel in self.vocabulary.kernels:
            inverse = [np.full(len(self.vocabulary.targets), -1, np.int64) for _ in kernel.parameters]
            for indices, words in zip(inverse, self.vocabulary.value_words(kernel.name), strict=True):
                indices[words] = np.arange(len(words))
            self._index_of[kernel.name] = tuple(inverse)

    def start(self, queries: Sequence[Pair], allowed: Allowed) -> tuple[LabelState, Scores]:
        """Start one empty hypothesis per query; the translator alone scores the kernels' words."""
        translated, scores = self._translator.start(queries, allowed)
        return LabelState(translated, tree_columns(queries), np.arange(len(queries)),
                          [(device.name, "") for _, device in queries], np.zeros((len(queries), 0), np.int64)), scores

    def advance(self, state: LabelState, chosen: Allowed, allowed: Allowed) -> tuple[LabelState, Scores]:
        """Extend hypotheses by one word each, and score the words allowed next."""
        translated, scores = self._translator.advance(state.translated, chosen, allowed)
        names, indices = [state.names[row] for row in chosen.after.tolist()], state.indices[chosen.after]
        said = list(zip(names, chosen.words.tolist(), strict=True))
        if names[0][1]:
            last = [self._index_of[kernel][indices.shape[1]][word] for (_, kernel), word in said]
            indices = np.concatenate([indices, np.array(last, np.int64)[:, None]], axis=1)
        else:
            names = [(device, self.vocabulary.targets[word].removeprefix("kernel:")) for (device, _), word in said]
        state = LabelState(translated, state.columns, state.owners[chosen.after], names, indices)
        return state, self._mixed(state, allowed, scores)

    def _mixed(self, state: LabelState, allowed: Allowed, scores: Scores) -> Scores:
        """The scores of the allowed words, of which the translator's are given."""
        starts = np.concatenate(([0], (allowed.after[1:] != allowed.after[:-1]).nonzero()[0] + 1))
        trees, weights = np.zeros(len(scores), np.float32), np.zeros(len(scores))
        for device, kernel in dict.fromkeys(state.names):
            if kernel in self._fallbacks:
                rows = np.array([row for row, names in enumerate(state.names) if names == (device, kernel)])
                number = np.full(len(state.names), -1)
                number[rows] = np.arange(len(rows))
                own = (number[allowed.after] >= 0).nonzero()[0]
                chains = [self._chains[group] for group in ((device, kernel), (ANY, kernel)) if group in self._chains]
                each = [chain.logs(state.columns[state.owners[rows]], state.indices[rows])
                        for chain in chains or [self._fallbacks[kernel]]]
                logs = each[0] if len(each) == 1 else np.mean(each, axis=0)
                values = self._index_of[kernel][state.indices.shape[1]][allowed.words[own]]
                trees[own], weights[own] = logs[number[allowed.after[own]], values], self._weights[kernel]
        return np.asarray((1 - weights) * _logs(scores, starts) + weights * _logs(trees, starts), np.float32)


def _logs(scores: Scores, starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The log-probabilities (word,) of words; those after a hypothesis begin at each start."""
    lengths = np.diff(np.append(starts, len(scores)))
    shifted = (scores - np.maximum.reduceat(scores, starts).repeat(lengths)).astype(np.float64)
    return np.asarray(shifted - np.log(np.add.reduceat(np.exp(shifted), starts)).repeat(lengths))
