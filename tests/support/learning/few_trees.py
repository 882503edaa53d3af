"""Boosted trees of few rounds, in this process: for tests of what surrounds a training, not of its answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from seqtune.tuner.cost_models.boosting import Boosting

FEW_ROUNDS = 20


def grow_few_trees(patch: pytest.MonkeyPatch) -> None:
    """Limit the rounds of every booster that is fitted while the patch holds."""
    def fewer(grow: Callable[..., Any]) -> Callable[..., Any]:
        return lambda settings, *given: grow(replace(settings, rounds=min(settings.rounds, FEW_ROUNDS)), *given)

    patch.setattr(Boosting, "grow", fewer(Boosting.grow))
    patch.setattr(Boosting, "grow_several", fewer(Boosting.grow_several))
