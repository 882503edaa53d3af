"""Draws: random sizes for the samplers of operations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def choose(generator: np.random.Generator, values: Sequence[int], chances: Sequence[float] | None = None) -> int:
    """Choose one of the values; `chances` are their probabilities, equal by default."""
    return int(generator.choice(np.asarray(values), p=chances))


def jitter(generator: np.random.Generator, value: int, chance: float, step: int = 1) -> int:
    """Return `value` or, with probability `chance`, a multiple of `step` that is up to a fifth away from it."""
    if generator.random() >= chance:
        return value
    factor = float(generator.uniform(0.8, 1.2))
    return max(step, round(value * factor / step) * step)
