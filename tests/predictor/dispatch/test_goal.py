"""Goals: their losses by hand."""

import math
from typing import Any, Literal

import numpy as np
import pytest

from seqtune.errors import MisuseError
from seqtune.predictor.dispatch.goal import Goal


def test_losses_by_hand() -> None:
    slowness = np.array([0.0, 0.05, 0.2, 1.0])
    weights = np.array([0.5, 0.25, 0.2, 0.05])
    assert Goal().loss(slowness, weights) == pytest.approx(0.0125 + 0.04 + 0.05)
    assert Goal("worst").loss(slowness, weights) == pytest.approx((0.05 * 1.0 + 0.05 * 0.2) / 0.1)
    assert Goal("within").loss(slowness, weights) == pytest.approx(0.25)
    assert Goal("within", 1.3).loss(slowness, weights) == pytest.approx(0.05)


@pytest.mark.parametrize("kind", ["mean", "worst", "within"])
def test_weights_need_not_sum_to_one_and_a_member_that_is_never_slower_loses_nothing(
        kind: Literal["mean", "worst", "within"]) -> None:
    goal, weights = Goal(kind), np.array([1.0, 2.0, 3.0])
    assert goal.loss(np.zeros(3), weights) == 0.0
    assert goal.loss(np.array([0.1, 0.3, 0.2]), weights) == pytest.approx(
        goal.loss(np.array([0.1, 0.3, 0.2]), weights / 6))
    assert (goal.stakes(np.array([0.0, 0.5])) == np.sort(goal.stakes(np.array([0.5, 0.0])))).all()


@pytest.mark.parametrize(("kind", "factor"), [("best", 1.1), ("within", 1.0), ("within", math.nan)])
def test_impossible_goals_are_refused(kind: Any, factor: float) -> None:
    with pytest.raises(MisuseError):
        Goal(kind, factor)
