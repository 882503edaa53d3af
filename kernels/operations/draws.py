"""Draws: random sizes for the samplers of operations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def choose(generator: np.random.Generator, values: Sequence[int], chances: Sequence[float] | None = None) -> int:
    """One of the values, with equal chances unless they are given."""
    return int(generator.choice(np.asarray(values), p=chances))


def jitter(generator: np.random.Generator, value: int, chance: float, step: int = 1) -> int:
    """`value`, or with `chance` a number up to a fifth away from it, in multiples of `step`."""
    if generator.random() >= chance:
        return value
    factor = float(generator.uniform(0.8, 1.2))
    return max(step, round(value * factor / step) * step)
