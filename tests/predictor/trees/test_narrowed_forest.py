"""Tests of narrowed forests: they score rows as the whole forest does."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.predictor.trees.forest import Forest
from seqtune.predictor.trees.narrowed_forest import MANY, NarrowedForest, margins
from seqtune.tuner.cost_models.boosting import Boosting

GENERATOR = np.random.default_rng(0)
FITTED = GENERATOR.normal(size=(400, 6)).astype(np.float32)
BOOSTING = Boosting("reg:squarederror", rounds=30, depth=5, rate=0.3)
FOREST = Forest.of(BOOSTING.grow(FITTED, FITTED[:, 0] * FITTED[:, 1] + np.abs(FITTED[:, 2])), 1)


@pytest.mark.parametrize("shared", [[], [0, 3], [0, 1, 2, 3, 4, 5]])
def test_rows_that_share_features_have_the_scores_of_the_whole_forest(shared: list[int]) -> None:
    rows = GENERATOR.normal(size=(3 * MANY, 6)).astype(np.float32)
    rows[:, shared] = rows[0, shared]
    narrowed = NarrowedForest.of(FOREST, rows)
    np.testing.assert_allclose(narrowed.margins(rows), FOREST.margins(rows)[:, 0], atol=1e-5)
    assert len(narrowed.value) <= len(FOREST.value) - len(shared)
    assert len(narrowed.deeper) == (0 if len(shared) == 6 else 5)


def test_rows_without_a_number_go_where_the_whole_forest_sends_them() -> None:
    rows = GENERATOR.normal(size=(MANY, 6)).astype(np.float32)
    rows[::7, 1] = np.nan
    np.testing.assert_allclose(margins(FOREST, rows), FOREST.margins(rows)[:, 0], atol=1e-5)
    np.testing.assert_array_equal(margins(FOREST, rows[:20]), FOREST.margins(rows[:20])[:, 0])
    assert NarrowedForest.of(FOREST, rows).margins(rows[:0]).shape == (0,)
