"""Droplet Search: coordinate descent from the best of a short exploration, with a significance test on noisy timings.

After Canesche, Rosario, Borin and Pereira, "The Droplet Search Algorithm for Kernel Scheduling" (ACM TACO, 2024), and
its authors' implementation in TVM. The times of kernels are nearly convex along each parameter, so neighbours one step
away along every coordinate are measured, speculatively in one batch. The droplet moves to a neighbour that is faster
beyond noise (t-test, p <= 0.05). If there is none, neighbours at increasing distances are tried, up to the last value
of the longest parameter; then the descent ends. The rest of the budget goes to further explorations and descents,
which the paper leaves to the user. A step goes to the next *valid* value, since a constraint may forbid the adjacent
one.

Moves are decided by Welch's t-test, as published: one-sided, for unequal variances. Its samples were taken at different
times and are no pairs, so it cannot use `measuring.comparison`, which says what is faster everywhere else. The tail of
Student's distribution is a regularised incomplete beta function, computed by its continued fraction (Lentz's method;
DLMF 8.17.22).

Seeded Droplet Search first measures the predictor's proposals, the context's `seeds`, since the tuner never imports the
predictor, and begins the descent at the best of them. Its name in the table of strategies is `predictor`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance

import numpy as np

from seqtune.data.record import Measurement
from seqtune.kernels.kernel import Configuration

from .searcher import Searcher
from .strategy import SearchContext

EXPLORATION = 16  # random configurations; the descent begins at the best of them
SIGNIFICANCE = 0.05  # of the t-test


class Droplet(Searcher):
    """Alternates explorations and descents until all configurations were proposed.

    An exploration proposes `EXPLORATION` random configurations; the first one proposes `seeds` instead, if given.
    """

    def __init__(self, context: SearchContext, seeds: Sequence[Configuration] = ()) -> None:
        super().__init__(context)
        self._seeds = self.valid_numbers(seeds)
        self._explore(len(self._seeds) or EXPLORATION)

    def _explore(self, count: int) -> None:
        """Begin an exploration of `count` configurations."""
        self._to_explore = self._awaited = count  # configurations to propose, results to observe before the descent
        self._current: int | None = None  # the number at which the droplet is
        self._samples: Sequence[float] = ()  # its times
        self._reset_neighbours()

    def _reset_neighbours(self) -> None:
        """Begin with the nearest neighbours of the current configuration."""
        self._distance = 0  # largest number of steps tried so far
        self._near = None if self._current is None else self.task.neighbours(self._current)
        self._next: list[int] = []

    def propose(self, count: int) -> list[int]:
        if self._to_explore > 0:
            numbers, self._seeds = self._seeds[:count], self._seeds[count:]
            numbers = numbers or self.fresh(min(count, self._to_explore))
            self._to_explore -= len(numbers)
            return numbers
        while self._near is not None and len(self._next) < count and self._distance < self._max_distance():
            self._distance += 1
            ring = self._near.numbers[np.abs(self._near.steps) == self._distance]
            self._next += self.generator.permutation(self.unproposed(ring)).tolist()
        numbers, self._next = self._next[:count], self._next[count:]
        if numbers:
            return numbers
        self._explore(EXPLORATION)
        return self.propose(count)

    def _max_distance(self) -> int:
        assert self._near is not None
        return int(np.abs(self._near.steps).max(initial=0))

    def learn(self, number: int, measurement: Measurement) -> None:
        self._awaited -= 1
        if not math.isfinite(measurement.seconds):
            return
        if self._current is None:
            better = True
        elif self._awaited >= 0:  # a result of the exploration
            better = measurement.seconds < self.seconds[self._current]
        else:
            better = faster(measurement.samples, self._samples) <= SIGNIFICANCE
        if better:
            self._current, self._samples = number, measurement.samples
            self._reset_neighbours()


class SeededDroplet(Droplet):
    """Measures the predictor's proposals and begins the descent at the fastest of them."""

    def __init__(self, context: SearchContext) -> None:
        super().__init__(context, context.seeds)


def faster(samples: Sequence[float], than: Sequence[float]) -> float:
    """The p-value of the hypothesis that `samples` are not faster than `than`: small if their mean is clearly less.

    If a side has fewer than two samples, or no samples differ, the noise is unknown: 0 or 1, by the means alone.
    """
    if not samples or not than:
        return 0.0 if samples else 1.0
    lead = fmean(than) - fmean(samples)
    if len(samples) < 2 or len(than) < 2:
        return 0.0 if lead > 0 else 1.0
    error, than_error = variance(samples) / len(samples), variance(than) / len(than)  # squares of standard errors
    if error + than_error == 0:
        return 0.0 if lead > 0 else 1.0
    freedom = (error + than_error) ** 2 / (error**2 / (len(samples) - 1) + than_error**2 / (len(than) - 1))
    return student_tail(lead / math.sqrt(error + than_error), freedom)


def student_tail(t: float, freedom: float) -> float:
    """The probability P(T > t) of Student's t-distribution with `freedom` degrees of freedom."""
    tail = 0.5 * incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)
    return tail if t > 0 else 1 - tail


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges slowly here, and its mirror image quickly
        return 1 - incomplete_beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 300):
        before = fraction
        for numerator in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                          -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            d = 1 / _nonzero(1 + numerator * d)
            c = _nonzero(1 + numerator / c)
            fraction *= c * d
        if abs(fraction - before) < 1e-14 * abs(fraction):
            break
    return front * fraction


def _nonzero(value: float) -> float:
    return value if abs(value) > 1e-300 else 1e-300
