"""Greedy decoding of labels in large batches, for benchmarks that answer thousands of queries at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.data.labels import Labels
from seqtune.data.queries import Questions
from seqtune.kernels.kernel import Kernel
from seqtune.predictor.labels.methods import Answers, Beam, Places, valid
from seqtune.predictor.sequence.beam import Allowed, NextWord


class Greedy:
    """The most probable value after another, for many questions at once.

    Look-ahead is spared where what is said without it is valid: it would have allowed each of those values, and so have
    changed nothing. The other questions are answered with it.
    """

    def __init__(self, words: NextWord[Any]) -> None:
        self.words = words
        self._beam = Beam(words, width=1)

    def answer(self, labels: Labels, count: int) -> Answers:
        """One proposal for each label, whatever the number asked for."""
        parts = [labels.questions.take(rows) for rows in
                 np.array_split(np.arange(len(labels)), len(labels) // 1024 + 1)]
        places = np.concatenate([self._unchecked(labels.kernel, part) for part in parts])
        rest = np.flatnonzero(~valid(labels.kernel, labels.questions, places))
        places[rest] = self._beam.propose(labels.take(rest), 1)[:, 0]
        return Answers(places[:, None], None)

    def _unchecked(self, kernel: Kernel, questions: Questions) -> Places:
        vocabulary, everyone = self.words.vocabulary, np.arange(len(questions))
        said = self._all(everyone, np.array([vocabulary.kernel(kernel.name)]))
        state, _ = self.words.start(questions.pairs(), said)
        places = np.empty((len(questions), len(kernel.parameters)), np.int16)
        for column, words in enumerate(vocabulary.places(kernel.name)):
            allowed = self._all(everyone, words)
            state, scores = self.words.advance(state, said, allowed)
            best = scores.reshape(len(questions), len(words)).argmax(axis=1)
            places[:, column] = best
            said = Allowed(everyone, words[best], allowed.settled[everyone])
        return places

    def _all(self, everyone: NDArray[np.int64], words: NDArray[np.int64]) -> Allowed:
        after = np.repeat(everyone, len(words))
        nothing = np.full((len(after), len(self.words.vocabulary.derived)), np.nan, np.float32)
        return Allowed(after, np.tile(words, len(everyone)), nothing)
