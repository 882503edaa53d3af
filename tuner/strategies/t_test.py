"""Welch's t-test, by which Droplet Search moves: it is part of the published algorithm.

Its samples were taken at different times and are no pairs. Therefore it cannot use `measuring.comparison`, which says
what is faster everywhere else. The test is one-sided, for unequal variances. The tail of Student's
distribution is a regularised incomplete beta function, which is computed by its continued fraction (Lentz's method;
DLMF 8.17.22).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance


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
    tail = 0.5 * _beta(freedom / (freedom + t * t), freedom / 2, 0.5)
    return tail if t > 0 else 1 - tail


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges slowly here, and its mirror image quickly
        return 1 - _beta(1 - x, b, a)
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
