"""Residual trees: small boosted trees that NumPy fits."""

from __future__ import annotations

import numpy as np

from seqtune.predictor.correction.checked_trees import BINS, ResidualOptions, grow
from seqtune.predictor.trees.forest import Forest

OPTIONS = ResidualOptions(rounds=60, subsample=1.0, columns=1.0, least_weight=1.0, part=1.0)


def rows_of(count: int = 400, features: int = 6) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, features)).astype(np.float32)


def test_they_learn_a_step_and_an_interaction() -> None:
    rows = rows_of()
    target = np.where(rows[:, 2] < 0.3, 1.0, 0.0) * np.where(rows[:, 4] < 0, 1.0, -1.0)
    predicted = grow(rows, target, np.ones(len(rows)), OPTIONS, 0).margins(rows)[:, 0]
    assert np.corrcoef(predicted, target)[0, 1] > 0.97


def test_a_file_holds_the_same_predictions() -> None:
    rows = rows_of(features=3)
    rows[:, 1] = np.round(rows[:, 1])  # fewer values than thresholds
    assert len(np.unique(rows[:, 0])) > BINS
    forest = grow(rows, rows[:, 0].astype(float) * rows[:, 1], np.ones(len(rows)), OPTIONS, 0)
    again = Forest.read(forest.arrays(), 1, 3)
    assert np.array_equal(forest.margins(rows), again.margins(rows))
