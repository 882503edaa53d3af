"""Greedy decoding of labels in large batches, for benchmarks that answer thousands of queries at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.data.labels import Labels
from seqtune.data.queries import Questions
from seqtune.kernels.kernel import Kernel
from seqtune.predictor.labels.methods import Beam, LabelPredictions, ValueIndices, valid
from seqtune.predictor.sequence.beam import Allowed, NextWord


class Greedy:
    """Chooses the most probable value of one parameter after the other, for many queries at once.

    Queries are first decoded without look-ahead, which is slow. If the result is valid, look-ahead would have allowed
    each of its values and changed nothing; only the other queries are decoded again, with look-ahead.
    """

    def __init__(self, words: NextWord[Any]) -> None:
        self.words = words
        self._beam = Beam(words, width=1)

    def predict(self, labels: Labels, count: int) -> LabelPredictions:
        """Propose one configuration for each label; `count` is ignored."""
        parts = [labels.questions.take(rows) for rows in
                 np.array_split(np.arange(len(labels)), len(labels) // 1024 + 1)]
        indices = np.concatenate([self._unchecked(labels.kernel, part) for part in parts])
        rest = np.flatnonzero(~valid(labels.kernel, labels.questions, indices))
        indices[rest] = self._beam.propose(labels.take(rest), 1)[:, 0]
        return LabelPredictions(indices[:, None], None)

    def _unchecked(self, kernel: Kernel, questions: Questions) -> ValueIndices:
        vocabulary, queries = self.words.vocabulary, np.arange(len(questions))
        chosen = self._all(queries, np.array([vocabulary.kernel(kernel.name)]))
        state, _ = self.words.start(questions.pairs(), chosen)
        indices = np.empty((len(questions), len(kernel.parameters)), np.int16)
        for column, words in enumerate(vocabulary.value_words(kernel.name)):
            allowed = self._all(queries, words)
            state, scores = self.words.advance(state, chosen, allowed)
            best = scores.reshape(len(questions), len(words)).argmax(axis=1)
            indices[:, column] = best
            chosen = Allowed(queries, words[best], allowed.resolved[queries])
        return indices

    def _all(self, queries: NDArray[np.int64], words: NDArray[np.int64]) -> Allowed:
        query_of_word = np.repeat(queries, len(words))
        no_derived = np.full((len(query_of_word), len(self.words.vocabulary.derived)), np.nan, np.float32)
        return Allowed(query_of_word, np.tile(words, len(queries)), no_derived)
