"""Forest: its prediction of a row is the sum of its trees' leaves, whatever other rows there are."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.predictor.trees.forest import Forest
from seqtune.tuner.cost_models.boosting import Boosting

GENERATOR = np.random.default_rng(0)
FITTED = GENERATOR.normal(size=(400, 6)).astype(np.float32)
BOOSTER = Boosting("reg:squarederror", rounds=30, depth=5, rate=0.3, more={"base_score": 0.0}).grow(
    FITTED, FITTED[:, 0] * FITTED[:, 1] + np.abs(FITTED[:, 2]))
FOREST = Forest.of(BOOSTER, 1)
CLASSES = Forest.of(Boosting("multi:softprob", 10, 4, 0.3, more={"num_class": 3, "base_score": 0.5}).grow(
    FITTED, np.digitize(FITTED[:, 3], (-0.5, 0.5))), 3)


def walked(forest: Forest, row: np.ndarray) -> np.ndarray:
    """The margins of a row, by going down one tree after the other."""
    sums = np.zeros(forest.classes, np.float32)
    for tree, root in enumerate(forest.roots.tolist()):
        node = root
        while left := int(forest.left[node]):
            node = root + left + int(row[forest.feature[node]] >= forest.value[node])
        sums[tree % forest.classes] += forest.value[node]
    return sums


@pytest.mark.parametrize("forest", [FOREST, CLASSES], ids=["one class", "three classes"])
@pytest.mark.parametrize("count", [0, 1, 2, 63, 64, 65, 300])
def test_the_leaves_of_each_row_are_added_in_the_order_of_the_trees(forest: Forest, count: int) -> None:
    rows = GENERATOR.normal(size=(count, 6)).astype(np.float32)
    rows[::7, 1], rows[::5, 2] = np.nan, np.inf  # a row without a number goes to the left
    rows[::3, 3] = -np.inf
    wanted = np.array([walked(forest, row) for row in rows], np.float32).reshape(count, forest.classes)
    np.testing.assert_array_equal(forest.margins(rows), wanted)


def test_the_margins_are_those_of_the_library_that_fitted_the_trees() -> None:
    rows = GENERATOR.normal(size=(100, 6)).astype(np.float32)
    assert FOREST.margins(rows)[:, 0] == pytest.approx(BOOSTER.inplace_predict(rows), abs=0.02)  # leaves of 16 bits


def test_rows_with_fewer_features_than_the_trees_read_are_refused() -> None:
    with pytest.raises(AssertionError, match=r"2 features, and the trees read [3-6]"):
        FOREST.margins(np.zeros((1, 2), np.float32))
