"""Surrogate: a Gaussian process over a pool of configurations, learned anew from some hundred measurements at a time.

Configurations stand on scales (`Levels`). Their covariance is a product over the scales of (1 + a * alike) / (1 + a):
expanded, a sum over all sets of scales, so main effects, interactions of two quantities and so on are all in it, with
amplitudes that the weight `a` of each scale decides (smoothing-spline ANOVA: Wahba, 1990; Durrande et al., 2013). The
weights and the noise are what is likeliest a posteriori, by resilient gradient steps (Riedmiller and Braun, 1993) from
where they were. Where sources are given (times on other devices), each adds a linear term. The scale of it all is
integrated out under an inverse-gamma prior, and the mean under a flat one.

The factor of the covariance is kept inverted, so that one configuration more costs a matrix-vector product, and new
times for the same configurations cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .coordinates import Places, Scale

Floats = NDArray[np.float64]

ROOM = 32  # rows by which the factor grows


@dataclass(frozen=True, slots=True)
class SurrogateOptions:
    """The priors, and how the weights are learned."""

    weight: float = 0.7  # prior median of the scales' weights
    computed: float = 0.2  # the same of computed quantities, most of which mean nothing
    weight_spread: float = 1.2  # of their logarithm
    noise: float = 0.01  # prior median of the noise's variance, over that of the rest
    noise_spread: float = 1.0
    slope: float = 1.0  # prior deviation of the sources' coefficients, over that of the rest
    spread: float = 0.6  # prior deviation of what is modelled
    trust: float = 3.0  # measurements that this is worth
    most: int = 160  # measurements that weights are learned from


@dataclass(frozen=True, slots=True)
class Level:
    """What the mean is expected to be, worth so many measurements."""

    mean: float
    weight: float


FLAT = Level(0.0, 0.0)


class Surrogate:
    """`watch` says which configurations are the pool, `condition` where was measured, `predict` what the times tell."""

    def __init__(self, scales: Sequence[Scale], options: SurrogateOptions = SurrogateOptions()) -> None:
        self.options = options
        self.alike = [scale.alike for scale in scales]
        medians = [options.computed if scale.computed else options.weight for scale in scales]
        self.theta = np.log([*medians, options.noise])  # log weights, then the log noise
        self._prior = self.theta.copy()
        self._spread = np.full(len(self.theta), options.weight_spread)
        self._spread[-1] = options.noise_spread

    def learn(self, places: Places, slopes: Floats, values: Floats, steps: int) -> None:
        """Moves the weights to where these values are likelier. `slopes` is (configuration, source)."""
        if len(values) < 3 or not self.alike:
            return
        if len(values) > self.options.most:  # the fastest half matters most, the others tell what to avoid
            order = np.argsort(values, kind="stable")
            half = self.options.most // 2
            rest = order[half:]
            kept = np.concatenate([order[:half], rest[np.linspace(0, len(rest) - 1, half).astype(int)]])
            places, slopes, values = places[kept], slopes[kept], values[kept]
        alike = np.stack([table[places[:, one][:, None], places[:, one]] for one, table in enumerate(self.alike)])
        linear = self.options.slope**2 * slopes @ slopes.T
        size = np.full(len(self.theta), 0.3)
        before = np.zeros(len(self.theta))
        for _ in range(steps):
            gradient = self._gradient(alike, linear, values)
            turned = gradient * before
            size = np.clip(np.where(turned > 0, size * 1.3, np.where(turned < 0, size * 0.5, size)), 0.02, 1.0)
            gradient[turned < 0] = 0.0
            self.theta = np.clip(self.theta + np.sign(gradient) * size, math.log(1e-4), math.log(1e2))
            before = gradient

    def _gradient(self, alike: Floats, linear: Floats, values: Floats) -> Floats:
        """Of the log posterior density in theta. `alike` is (scale, configuration, configuration)."""
        weight, noise = np.exp(self.theta[:-1])[:, None, None], math.exp(self.theta[-1])
        joined = 1 + weight * alike
        product = joined.prod(axis=0) / float((1 + weight).prod())
        inverse = np.linalg.inv(product + linear + noise * np.eye(len(values)))
        ones = inverse.sum(axis=1)
        rest = values - ones @ values / ones.sum()
        pull = inverse @ rest
        options = self.options
        scale = (rest @ pull + options.trust * options.spread**2) / (len(values) + options.trust)
        push = np.outer(pull, pull) / scale - inverse
        inner = push * product
        gradient = np.empty(len(self.theta))
        gradient[:-1] = 0.5 * (weight / (1 + weight))[:, 0, 0] * np.einsum(
            "ij,dij->d", inner, (alike - 1) / joined, optimize=False)
        gradient[-1] = 0.5 * noise * np.trace(push)
        return np.asarray(gradient - (self.theta - self._prior) / self._spread**2)

    def covariance(self, places: Places, slopes: Floats, others: Places, others_slopes: Floats) -> NDArray[np.float32]:
        """(configuration, other)"""
        found = np.zeros((len(places), len(others)), np.float32)
        for one, table in enumerate(self._logs()):
            found += np.take(table[places[:, one]], others[:, one], axis=1)
        return self._finished(found, slopes, others_slopes)

    def _logs(self) -> list[NDArray[np.float32]]:
        """Per scale, the logarithm of its factor of the covariance: (level, level)."""
        return [np.log((1 + weight * table) / (1 + weight)).astype(np.float32)
                for weight, table in zip(np.exp(self.theta[:-1]).tolist(), self.alike, strict=True)]

    def _finished(self, logs: NDArray[np.float32], slopes: Floats, others: Floats) -> NDArray[np.float32]:
        np.exp(logs, out=logs)
        if slopes.shape[1]:
            logs += np.float32(self.options.slope**2) * (slopes @ others.T).astype(np.float32)
        return logs

    def watch(self, pool: Places, slopes: Floats) -> None:
        """What will be predicted."""
        self._pool, self._pool_slopes = np.asfortranarray(pool), slopes
        levels = sum(map(len, self.alike))
        self._indicators = np.zeros((levels, len(pool)), np.float32)  # so that many covariances are one matrix product
        begin = 0
        for one, table in enumerate(self.alike):
            self._indicators[begin + pool[:, one], np.arange(len(pool))] = 1.0
            begin += len(table)

    def condition(self, places: Places, slopes: Floats) -> None:
        """On measurements at `places`, whose values `predict` is told."""
        self._places, self._slopes = places, slopes
        noise = math.exp(self.theta[-1])
        own = self.covariance(places, slopes, places, slopes).astype(float)
        factor = np.linalg.cholesky(own + (noise + 1e-6) * np.eye(len(places)))
        self._inverse = np.linalg.inv(factor)
        none = np.zeros((len(places), 0), np.float32)  # where all spaces are of one configuration, there is no scale
        tables = [none, *(table[places[:, one]] for one, table in enumerate(self._logs()))]
        across = self._finished(np.concatenate(tables, axis=1) @ self._indicators, slopes, self._pool_slopes)
        self._seen = self._inverse.astype(np.float32) @ across
        prior = 1 + self.options.slope**2 * (self._pool_slopes**2).sum(axis=1)
        self._left = np.maximum(prior - (self._seen**2).sum(axis=0), 1e-6)
        self._log_determinant = 2 * float(np.log(np.diag(factor)).sum())

    def append(self, place: Places, slope: Floats) -> None:
        """One more configuration; shapes (1, scale) and (1, source)."""
        noise = math.exp(self.theta[-1]) + 1e-6
        known = self.covariance(self._places, self._slopes, place, slope)[:, 0].astype(float)
        here = self._inverse @ known
        left = math.sqrt(max(1 + self.options.slope**2 * float((slope**2).sum()) + noise - here @ here, 1e-9))
        count = len(self._places)
        grown = np.zeros((count + 1, count + 1))
        grown[:count, :count] = self._inverse
        grown[count, :count] = -here @ self._inverse / left
        grown[count, count] = 1 / left
        across = self.covariance(place, slope, self._pool, self._pool_slopes)[0]
        row = (across - here.astype(np.float32) @ self._seen[:count]) / np.float32(left)
        self._inverse = grown
        if len(self._seen) == count:
            self._seen = np.concatenate([self._seen, np.empty((ROOM, len(row)), np.float32)])
        self._seen[count] = row
        self._places = np.concatenate([self._places, place])
        self._slopes = np.concatenate([self._slopes, slope])
        self._left = np.maximum(self._left - row**2, 1e-6)
        self._log_determinant += 2 * math.log(left)

    def predict(self, values: Floats, level: Level = FLAT) -> tuple[Floats, Floats]:
        """Mean and standard deviation, noise included, of each configuration of the pool."""
        ones, told, mean, scale = self._weigh(values, level)
        found = mean + (told - mean * ones).astype(np.float32) @ self._seen[:len(ones)]
        return found.astype(float), np.sqrt(scale * (self._left + math.exp(self.theta[-1])))

    def evidence(self, values: Floats, level: Level = FLAT) -> float:
        """The log marginal likelihood of the values, less what all models of the same values share."""
        ones, _, _, scale = self._weigh(values, level)
        count, trust = len(values), self.options.trust
        return -0.5 * (self._log_determinant + math.log(float(ones @ ones) + level.weight)
                       + (count + trust) * math.log(scale))

    def _weigh(self, values: Floats, level: Level) -> tuple[Floats, Floats, float, float]:
        ones, told = self._inverse.sum(axis=1), self._inverse @ values
        mean = (float(ones @ told) + level.weight * level.mean) / (float(ones @ ones) + level.weight)
        rest = told - mean * ones
        options = self.options
        apart = float(rest @ rest) + level.weight * (mean - level.mean)**2
        scale = (apart + options.trust * options.spread**2) / (len(values) + options.trust)
        return ones, told, mean, scale
