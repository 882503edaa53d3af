"""GaussianProcess: regression over a pool of configurations, refitted from some hundred measurements at a time.

A configuration is a vector of level indices (`Coordinates`). The covariance of two configurations is the product over
the axes of (1 + a * correlation) / (1 + a). Expanded, it is a sum over all subsets of axes, so it contains main
effects, interactions of two quantities and so on, with amplitudes that follow from the weight `a` of each axis
(smoothing-spline ANOVA: Wahba, 1990; Durrande et al., 2013). The weights and the noise are fitted to the maximum of
their posterior by resilient gradient steps (Riedmiller and Braun, 1993), which begin at the previous fit. Each source
(times on another device) adds a linear term. The variance is integrated out under an inverse-gamma prior, and the mean
under a flat or a normal one (`MeanPrior`).

The inverse of the covariance's Cholesky factor is stored, so that one more configuration costs a matrix-vector product
and new values of the same configurations cost nothing. Covariances with the pool are computed for the first prediction:
a process of which only the evidence is asked does without them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.task import Floats

from .coordinates import Axis, LevelIndices

# The priors of the hyperparameters, and the size of a fit.
WEIGHT = 0.7  # prior median of an axis' weight
COMPUTED = 0.2  # prior median of the weight of computed quantities, most of which have no effect
WEIGHT_SPREAD = 1.2  # prior deviation of the logarithm of a weight
NOISE = 0.01  # prior median of the noise variance, relative to the signal variance
NOISE_SPREAD = 1.0  # prior deviation of its logarithm
SLOPE = 1.0  # prior deviation of the sources' coefficients, relative to the signal deviation
SPREAD = 0.6  # prior deviation of the signal
TRUST = 3.0  # weight of that prior, in measurements
FIT_SIZE = 160  # maximum number of measurements in a fit of the hyperparameters
GROWTH = 32  # rows by which the stored matrix over the pool grows


@dataclass(frozen=True, slots=True)
class MeanPrior:
    """The expected mean of the process, and its weight in measurements."""

    mean: float
    weight: float


FLAT = MeanPrior(0.0, 0.0)


class GaussianProcess:
    """Call `set_pool` for the configurations to predict, `condition` for the measured ones, then `predict`.

    Arrays of level indices are (configuration, axis), arrays of slopes (configuration, source).
    """

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.correlations = [axis.correlation for axis in axes]
        medians = [COMPUTED if axis.computed else WEIGHT for axis in axes]
        self.theta = np.log([*medians, NOISE])  # log weights, then the log noise
        self._prior = self.theta.copy()
        self._spread = np.full(len(self.theta), WEIGHT_SPREAD)
        self._spread[-1] = NOISE_SPREAD

    def fit(self, levels: LevelIndices, slopes: Floats, values: Floats, steps: int) -> None:
        """Fit the weights and the noise to the values (configuration,), with that number of gradient steps."""
        if len(values) < 3 or not self.correlations:
            return
        if len(values) > FIT_SIZE:  # the fastest matter most; a spread of the others shows what is slow
            order = np.argsort(values, kind="stable")
            half = FIT_SIZE // 2
            slower = order[half:]
            chosen = np.concatenate([order[:half], slower[np.linspace(0, len(slower) - 1, half).astype(int)]])
            levels, slopes, values = levels[chosen], slopes[chosen], values[chosen]
        correlations = np.stack([table[levels[:, axis][:, None], levels[:, axis]]
                                 for axis, table in enumerate(self.correlations)])
        linear = SLOPE**2 * slopes @ slopes.T
        size = np.full(len(self.theta), 0.3)
        previous = np.zeros(len(self.theta))
        for _ in range(steps):
            gradient = self._gradient(correlations, linear, values)
            agreement = gradient * previous
            size = np.clip(np.where(agreement > 0, size * 1.3, np.where(agreement < 0, size * 0.5, size)), 0.02, 1.0)
            gradient[agreement < 0] = 0.0
            self.theta = np.clip(self.theta + np.sign(gradient) * size, math.log(1e-4), math.log(1e2))
            previous = gradient

    def _gradient(self, correlations: Floats, linear: Floats, values: Floats) -> Floats:
        """The gradient of the log posterior in theta. `correlations` is (axis, configuration, configuration)."""
        weight, noise = np.exp(self.theta[:-1])[:, None, None], math.exp(self.theta[-1])
        factors = 1 + weight * correlations
        product = factors.prod(axis=0) / float((1 + weight).prod())
        inverse = np.linalg.inv(product + linear + noise * np.eye(len(values)))
        ones = inverse.sum(axis=1)
        residual = values - ones @ values / ones.sum()
        solved = inverse @ residual
        variance = (residual @ solved + TRUST * SPREAD**2) / (len(values) + TRUST)
        push = np.outer(solved, solved) / variance - inverse
        inner = push * product
        gradient = np.empty(len(self.theta))
        gradient[:-1] = 0.5 * (weight / (1 + weight))[:, 0, 0] * np.einsum(
            "ij,dij->d", inner, (correlations - 1) / factors, optimize=False)
        gradient[-1] = 0.5 * noise * np.trace(push)
        return np.asarray(gradient - (self.theta - self._prior) / self._spread**2)

    def covariance(self, levels: LevelIndices, slopes: Floats, others: LevelIndices,
                   others_slopes: Floats) -> NDArray[np.float32]:
        """The covariance of two sets of configurations, relative to the signal variance: (configuration, other)."""
        logs = np.zeros((len(levels), len(others)), np.float32)
        for axis, table in enumerate(self._log_factors):
            logs += table[levels[:, axis][:, None], others[:, axis]]
        return self._with_sources(logs, slopes, others_slopes)

    def _to_pool(self, levels: LevelIndices, slopes: Floats) -> NDArray[np.float32]:
        """The covariance of configurations with the pool: (configuration, pool)."""
        empty = np.zeros((len(levels), 0), np.float32)  # if all spaces have one configuration, there is no axis
        tables = [empty, *(table[levels[:, axis]] for axis, table in enumerate(self._log_factors))]
        return self._with_sources(np.concatenate(tables, axis=1) @ self._indicators, slopes, self._pool_slopes)

    def _with_sources(self, logs: NDArray[np.float32], slopes: Floats, others: Floats) -> NDArray[np.float32]:
        """The covariance from its logarithm over the axes, which is overwritten, and the sources' linear terms."""
        np.exp(logs, out=logs)
        if slopes.shape[1]:
            logs += np.float32(SLOPE**2) * (slopes @ others.T).astype(np.float32)
        return logs

    def set_pool(self, pool: LevelIndices, slopes: Floats) -> None:
        """Set the configurations that `predict` predicts."""
        self._covers_pool = False
        self._pool_slopes = slopes
        count = sum(map(len, self.correlations))
        self._indicators = np.zeros((count, len(pool)), np.float32)  # makes many covariances one matrix product
        begin = 0
        for axis, table in enumerate(self.correlations):
            self._indicators[begin + pool[:, axis], np.arange(len(pool))] = 1.0
            begin += len(table)

    def condition(self, levels: LevelIndices, slopes: Floats) -> None:
        """Condition on measurements of these configurations; `predict` gets their values."""
        self._levels, self._slopes = levels, slopes
        self._log_factors = [  # of each axis' factor of the covariance: (level, level)
            np.log((1 + weight * table) / (1 + weight)).astype(np.float32)
            for weight, table in zip(np.exp(self.theta[:-1]).tolist(), self.correlations, strict=True)]
        noise = math.exp(self.theta[-1])
        own = self.covariance(levels, slopes, levels, slopes).astype(float)
        factor = np.linalg.cholesky(own + (noise + 1e-6) * np.eye(len(levels)))
        self._inverse = np.linalg.inv(factor)
        self._log_determinant = 2 * float(np.log(np.diag(factor)).sum())
        self._covers_pool = False

    def _cover_pool(self) -> None:
        """Compute the whitened covariances (measured, pool) and the variance (pool,), relative and without noise."""
        if self._covers_pool:
            return
        self._whitened = self._inverse.astype(np.float32) @ self._to_pool(self._levels, self._slopes)
        prior = 1 + SLOPE**2 * (self._pool_slopes**2).sum(axis=1)
        self._variance = np.maximum(prior - np.einsum("mp,mp->p", self._whitened, self._whitened), 1e-6)
        self._covers_pool = True

    def append(self, levels: LevelIndices, slopes: Floats) -> None:
        """Condition on one more configuration: level indices (1, axis) and slopes (1, source)."""
        noise = math.exp(self.theta[-1]) + 1e-6
        to_measured = self.covariance(self._levels, self._slopes, levels, slopes)[:, 0].astype(float)
        solved = self._inverse @ to_measured
        pivot = math.sqrt(max(1 + SLOPE**2 * float((slopes**2).sum()) + noise - solved @ solved, 1e-9))
        count = len(self._levels)
        grown = np.zeros((count + 1, count + 1))
        grown[:count, :count] = self._inverse
        grown[count, :count] = -solved @ self._inverse / pivot
        grown[count, count] = 1 / pivot
        self._inverse = grown
        self._log_determinant += 2 * math.log(pivot)
        self._levels = np.concatenate([self._levels, levels])
        self._slopes = np.concatenate([self._slopes, slopes])
        if self._covers_pool:
            row = self._to_pool(levels, slopes)[0] - solved.astype(np.float32) @ self._whitened[:count]
            row /= np.float32(pivot)
            if len(self._whitened) == count:
                self._whitened = np.concatenate([self._whitened, np.empty((GROWTH, len(row)), np.float32)])
            self._whitened[count] = row
            self._variance = np.maximum(self._variance - row**2, 1e-6)

    def predict(self, values: Floats, mean_prior: MeanPrior = FLAT) -> tuple[Floats, Floats]:
        """The mean and the standard deviation, noise included, of every configuration of the pool.

        `values` (configuration,) belong to the configurations on which the process is conditioned, in their order.
        """
        self._cover_pool()
        ones, whitened, mean, variance = self._solve(values, mean_prior)
        means = mean + (whitened - mean * ones).astype(np.float32) @ self._whitened[:len(ones)]
        return means.astype(float), np.sqrt(variance * (self._variance + math.exp(self.theta[-1])))

    def evidence(self, values: Floats, mean_prior: MeanPrior = FLAT) -> float:
        """The log marginal likelihood of the values, up to a constant that all models of the same values share."""
        ones, _, _, variance = self._solve(values, mean_prior)
        return -0.5 * (self._log_determinant + math.log(float(ones @ ones) + mean_prior.weight)
                       + (len(values) + TRUST) * math.log(variance))

    def _solve(self, values: Floats, mean_prior: MeanPrior) -> tuple[Floats, Floats, float, float]:
        """The whitened vector of ones, the whitened values, the estimated mean and the estimated signal variance."""
        ones, whitened = self._inverse.sum(axis=1), self._inverse @ values
        mean = (float(ones @ whitened) + mean_prior.weight * mean_prior.mean) / (
            float(ones @ ones) + mean_prior.weight)
        residual = whitened - mean * ones
        squares = float(residual @ residual) + mean_prior.weight * (mean - mean_prior.mean)**2
        variance = (squares + TRUST * SPREAD**2) / (len(values) + TRUST)
        return ones, whitened, mean, variance
