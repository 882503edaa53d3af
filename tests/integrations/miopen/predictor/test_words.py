"""LabelWords: the beam over translator and trees, greedy decoding, and the choice of solvers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqtune.integrations.miopen.predictor.learned import LearnedLabels
from seqtune.integrations.miopen.predictor.learning import propose
from seqtune.predictor.checkpoint import Checkpoint
from tests.support.label_toys import MLIR, Parts
from tests.support.learning.greedy import Greedy


class Fixed:
    """A source of next words whose scores are a function of the word."""

    vocabulary: Any

    def __init__(self, vocabulary: Any, score: Any) -> None:
        self.vocabulary, self._score = vocabulary, score

    def start(self, queries: Sequence[Any], allowed: Any) -> tuple[Any, Any]:
        return None, self._score(allowed.words).astype(np.float32)

    def advance(self, state: Any, said: Any, allowed: Any) -> tuple[Any, Any]:
        return None, self._score(allowed.words).astype(np.float32)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_the_weight_says_how_much_translator_and_trees_count(weight: float, label_checkpoint: Path,
                                                             label_parts: Parts) -> None:
    loaded, labels = Checkpoint.load(label_checkpoint), label_parts[1][MLIR]
    assert isinstance(loaded.labels, LearnedLabels)
    one_sided = replace(loaded.labels, weight=1 - weight, weights={MLIR: weight})
    flat = Fixed(loaded.vocabulary, lambda words: words * 0.0)
    mixed = propose(one_sided.mixed(loaded.translator), labels, 5)
    if weight:  # the trees alone: another translator changes nothing
        assert (propose(one_sided.mixed(flat), labels, 5) == mixed).all()
    else:
        assert (propose(loaded.translator, labels, 5) == mixed).all()
        assert (propose(one_sided.mixed(flat), labels, 5) != mixed).any()


def test_greedy_batches_propose_what_look_ahead_proposes(label_checkpoint: Path, label_parts: Parts) -> None:
    loaded = Checkpoint.load(label_checkpoint)
    for words in (loaded.next_word(), Fixed(loaded.vocabulary, lambda words: words * -1.0)):  # needs look-ahead
        for labels in label_parts[1].values():
            quick = Greedy(words).predict(labels)
            assert (quick == propose(words, labels, 1, 1)).all()
            assert (quick >= 0).all()
