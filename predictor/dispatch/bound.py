"""Bound: what a rule promises for shapes that it never saw, from its losses on a sample of such shapes.

The share of shapes within a factor has the one-sided limit of Clopper and Pearson (1934), which holds for every sample
size. The interval of the geometric mean is a studentised bootstrap of the losses (Efron and Tibshirani, An Introduction
to the Bootstrap, 12.5), because losses are skewed: most are near 0, and a few are large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from seqtune.kernels.task import Floats
from seqtune.tuner.strategies.droplet import incomplete_beta

from .matrix import WORST

CONFIDENCE = 0.9
FEWEST = 8  # shapes without which a bound says nothing: 8 of 8 promise 75 % with 90 % confidence
RESAMPLES = 1000
# Share of the allowed error that the bootstrap gets, because its intervals are a little too narrow. For 60 to 150
# losses like those of rules, intervals of 90 % hold in 90.5 % of cases and those of 93 % in 94 %. For 150 losses of
# which a few are up to 20 times the best time, it is 89 and 91.5 %.
CAREFUL = 0.7
HALVINGS = 60  # of an interval, until its width is below any rounding of a double


@dataclass(frozen=True, slots=True)
class Bound:
    """A sample of losses of one way of choosing, and what it promises for fresh shapes."""

    shapes: int  # in the sample
    within: int  # of these at most `factor` times as slow as their best
    factor: float
    confidence: float
    share: float  # at least this share of shapes from the same draw is within the factor, with that confidence
    mean: float  # geometric mean of best time / time over the sample
    low: float  # the interval of that mean, with that confidence
    high: float

    @classmethod
    def of(cls, losses: Floats, factor: float = 1.1, seed: int = 0) -> Bound:
        """The bound from the losses log(time / best time) of at least one shape: (shape,)."""
        within = int((losses <= math.log(factor) + 1e-12).sum())
        low, high = mean_interval(losses, seed)
        return cls(len(losses), within, factor, CONFIDENCE, least_share(within, len(losses)),
                   math.exp(-float(losses.mean())), math.exp(-high), math.exp(-low))

    def text(self) -> str:
        """The bound as a sentence."""
        return (f"with {100 * self.confidence:g} % confidence at least {100 * self.share:.1f} % of shapes drawn like "
                f"the sample are at most {100 * (self.factor - 1):.3g} % slower than their best ({self.within} of "
                f"{self.shapes} were); on average {self.mean:.3f} of the best speed "
                f"({self.low:.3f} to {self.high:.3f})")


class Losses(NamedTuple):
    """The losses of a dispatcher on a shape that it did not learn from, log(time / best time)."""

    first: float
    raced: float | None  # of the faster one of the first two, each timed once; None: there was no race
    sure: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of the three ways to use a dispatcher."""

    rule: Bound  # the rule's first member
    raced: Bound | None  # the faster of its first two, each timed once; None if they were not raced
    sure: Bound | None  # the rule's first member where it is sure; None for fewer than FEWEST shapes

    @classmethod
    def of(cls, losses: Sequence[Losses], factor: float = 1.1, seed: int = 0) -> Bounds | None:
        """The bounds from the losses of fresh shapes; None for fewer than FEWEST of them."""
        rule, raced, sure = (Bound.of(np.array(part), factor, seed) if len(part) >= FEWEST else None for part in (
            [each.first for each in losses], [each.raced for each in losses if each.raced is not None],
            [each.first for each in losses if each.sure]))
        return None if rule is None else cls(rule, raced, sure)


def least_share(within: int, count: int) -> float:
    """The one-sided lower limit of Clopper and Pearson for a share of which `within` of `count` trials were seen.

    >>> round(least_share(58, 60), 3)
    0.914
    """
    low, high = 0.0, 1.0
    for _ in range(HALVINGS if within else 0):
        middle = (low + high) / 2  # as many successes or more have the probability I(middle)
        if incomplete_beta(middle, within, count - within + 1) < 1 - CONFIDENCE:
            low = middle
        else:
            high = middle
    return low


def mean_interval(losses: Floats, seed: int = 0) -> tuple[float, float]:
    """The two-sided interval of the mean loss, by a studentised bootstrap with a fixed seed; it is never below 0.

    Equal losses have no spread to draw from. Then the interval allows for the largest share of unlike shapes that may
    have been missed (by Clopper and Pearson); these lose nothing, or log(MISSING).
    """
    count, mean = len(losses), float(losses.mean())
    error = float(losses.std(ddof=1)) / math.sqrt(count) if count > 1 else 0.0
    if not error:
        seen = least_share(count, count)
        return seen * mean, seen * mean + (1 - seen) * WORST
    drawn = losses[np.random.default_rng(seed).integers(count, size=(RESAMPLES, count))]
    errors = drawn.std(axis=1, ddof=1) / math.sqrt(count)
    # a resample of equal losses has no error of its own; that of the sample stands in
    pivots = (drawn.mean(axis=1) - mean) / np.where(errors > 0, errors, error)
    tail = CAREFUL * (1 - CONFIDENCE) / 2
    below, above = np.quantile(pivots, [tail, 1 - tail])
    return max(0.0, mean - float(above) * error), mean - float(below) * error
