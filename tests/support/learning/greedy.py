"""Greedy decoding of labels in large batches, for benchmarks that answer thousands of queries at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.prediction.label_baselines.validity import valid
from seqtune.integrations.miopen.predictor.labels import Labels, Queries
from seqtune.integrations.miopen.predictor.learning import ValueIndices, propose
from seqtune.kernels.kernel import Kernel
from seqtune.predictor.sequence.beam import Allowed, NextWord


class Greedy:
    """Chooses the most probable value of one parameter after the other, for many queries at once.

    Queries are first decoded without look-ahead, which is slow. If the result is valid, look-ahead would have allowed
    each of its values and changed nothing; only the other queries are decoded again, with look-ahead.
    """

    def __init__(self, words: NextWord[Any]) -> None:
        self.words = words

    def predict(self, labels: Labels, count: int = 1) -> ValueIndices:
        """Propose one configuration for each label, (label, 1, parameter); `count` is ignored."""
        parts = [labels.take(rows) for rows in
                 np.array_split(np.arange(len(labels)), len(labels) // 1024 + 1)]
        indices = np.concatenate([self._unchecked(labels.kernel, part) for part in parts])
        rest = np.flatnonzero(~valid(labels.kernel, labels, indices))
        indices[rest] = propose(self.words, labels.take(rest), 1, 1)[:, 0]
        return indices[:, None]

    def _unchecked(self, kernel: Kernel, queries: Queries) -> ValueIndices:
        vocabulary, hypotheses = self.words.vocabulary, np.arange(len(queries))
        chosen = self._all(hypotheses, np.array([vocabulary.kernel(kernel.name)]))
        state, _ = self.words.start(queries.pairs(), chosen)
        indices = np.empty((len(queries), len(kernel.parameters)), np.int16)
        for column, words in enumerate(vocabulary.value_words(kernel.name)):
            allowed = self._all(hypotheses, words)
            state, scores = self.words.advance(state, chosen, allowed)
            best = scores.reshape(len(queries), len(words)).argmax(axis=1)
            indices[:, column] = best
            chosen = Allowed(hypotheses, words[best], allowed.resolved[hypotheses])
        return indices

    def _all(self, queries: NDArray[np.int64], words: NDArray[np.int64]) -> Allowed:
        query_of_word = np.repeat(queries, len(words))
        no_derived = np.full((len(query_of_word), len(self.words.vocabulary.derived)), np.nan, np.float32)
        return Allowed(query_of_word, np.tile(words, len(queries)), no_derived)
