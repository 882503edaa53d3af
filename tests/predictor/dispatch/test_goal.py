"""Goals: their losses by hand."""

import math
from typing import Any

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
    assert Goal("within", 1.3).loss(slowness, 3 * weights) == pytest.approx(0.05), "weights are shares"


@pytest.mark.parametrize(("kind", "factor"), [("best", 1.1), ("within", 1.0), ("within", math.nan)])
def test_impossible_goals_are_refused(kind: Any, factor: float) -> None:
    with pytest.raises(MisuseError):
        Goal(kind, factor)
