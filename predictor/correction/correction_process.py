"""CorrectionProcess: what measurements say about the errors of boosted trees, as a Gaussian process.

The error of a configuration is its measured log time minus the one that the trees expect. The covariance of the errors
of two configurations is

    signal^2 * (share of the trees in which both reach the same leaf) + FAMILY^2 [same kernel] + offset^2 [same problem]

plus independent noise. Sharing leaves is the trees' own notion of similarity (a random-forest kernel: Breiman, "Some
infinity theory for predictor ensembles", 2000), so errors travel between problems as far as the trees' rules do. The
offset is needed because the best time of a problem, to which log times are relative, is not known. The posterior mean
is a sum over leaves, so a fitted process is a value to add to each leaf.

Signal, offset and noise maximise the marginal likelihood. Noise is larger where a measurement contradicts all others (a
thread that was not scheduled costs ten times). Finally the correction is multiplied by a factor from 0 to 1: the one
with which corrections by the other problems lead to the fastest choices on each problem. Evidence that does not carry
over to other problems changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.task import Floats

FAMILY = 0.1  # deviation of an error that all configurations of a kernel family share
SIGNALS, OFFSETS, NOISES = (0.1, 0.2, 0.4, 0.8), (0.05, 0.15), (0.05, 0.1, 0.2)  # deviations that are tried
FITTED_ROWS = 400  # rows from which these are chosen: the likelihood of each costs the cube of it
OUTLIER = 2.0  # standard deviations beyond which an error counts as noise
FACTORS = (0.25, 0.5, 0.75, 1.0)  # of the correction, or 0
LEAST_PROBLEMS = 8  # with which a correction of other problems is tried
SOFTNESS = 0.03  # this much slower is chosen e times less often when factors are compared: one choice alone is noisy
LEAST_GAIN = 1e-3  # in log time, below which a larger factor is not worth it; rounding errors of a single problem, too


@dataclass(frozen=True, slots=True, eq=False)
class Observations:
    """Measured configurations of several problems."""

    leaves: NDArray[np.int64]  # (row, tree) the leaf that a row reaches
    family: NDArray[np.int64]  # (row,) number of the kernel family; leaves of different families are different
    problem: NDArray[np.int64]  # (row,) number of the problem
    expected: Floats  # (row,) log(time / best) by the trees
    observed: Floats  # (row,) log(time / best measured time of the problem)

    def __len__(self) -> int:
        return len(self.expected)

    @property
    def errors(self) -> Floats:
        """The observed minus the expected log times, (row,)."""
        return self.observed - self.expected

    def problems(self) -> list[NDArray[np.int64]]:
        """The rows of each problem."""
        return [np.flatnonzero(self.problem == number) for number in np.unique(self.problem)]


@dataclass(frozen=True, slots=True, eq=False)
class CorrectionProcess:
    """A fitted process."""

    signal: float
    factor: float  # by which the correction is multiplied
    weights: Floats  # (row,) of the observations, in the posterior mean
    inverse: Floats  # (row, row) of the covariance with its noise
    others: Floats  # (row,) correction of each row by the other problems alone

    @classmethod
    def fit(cls, observations: Observations) -> CorrectionProcess:
        """Fit a process to at least one observation."""
        shared = shared_leaves(observations, observations)
        family = np.equal.outer(observations.family, observations.family)
        problem = np.equal.outer(observations.problem, observations.problem)
        # what is slow matters less, and a prediction or a measurement may say so
        slow = np.exp(np.clip(np.minimum(observations.observed, observations.expected), 0.0, None))
        errors = observations.errors
        chosen = np.unique(np.linspace(0, len(errors) - 1, FITTED_ROWS).astype(np.int64))
        part = np.ix_(chosen, chosen)
        signal, offset, noise = max(product(SIGNALS, OFFSETS, NOISES), key=lambda deviations: _likelihood(
            _covariance(shared[part], family[part], problem[part], *deviations[:2])
            + np.diag(deviations[2]**2 * slow[chosen]), errors[chosen]))
        covariance, variance = _covariance(shared, family, problem, signal, offset), noise**2 * slow
        inverse = np.linalg.inv(covariance + np.diag(variance))
        surprise = np.abs(inverse @ errors) / np.sqrt(np.diag(inverse))  # of each row, given all others
        variance *= np.maximum(1.0, surprise / OUTLIER)**2
        inverse = np.linalg.inv(covariance + np.diag(variance))
        weights = inverse @ errors
        others = np.empty(len(errors))
        for rows in observations.problems():  # leaving out a block: Rasmussen and Williams, 2006, equation 5.12
            others[rows] = errors[rows] - np.linalg.solve(inverse[np.ix_(rows, rows)], weights[rows])
        return cls(signal, _carried_over(observations, others), weights, np.asarray(inverse), others)

    def leaf_values(self, observations: Observations, family: int, nodes: int) -> Floats:
        """The value to add at each of a family's leaves, (node,), and in the end that to add to every row."""
        rows = observations.family == family
        leaves = observations.leaves[rows]
        weights = self.weights[rows] * self.factor
        values = np.bincount(leaves.ravel(), np.repeat(weights, leaves.shape[1]), nodes + 1)
        values *= self.signal**2 / leaves.shape[1]
        values[nodes] = FAMILY**2 * weights.sum()
        return np.asarray(values)

    def variance(self, observations: Observations, queries: Observations) -> Floats:
        """How unsure the error of each query is given the observations, (query,): a variance of log times."""
        shared = self.signal**2 * shared_leaves(queries, observations)
        shared += FAMILY**2 * np.equal.outer(queries.family, observations.family)
        explained = np.einsum("qr,rs,qs->q", shared, self.inverse, shared, optimize=True)
        return np.asarray(np.maximum(self.signal**2 + FAMILY**2 - explained, 0.0))


def shared_leaves(first: Observations, second: Observations) -> Floats:
    """The share of the trees in which two configurations reach the same leaf, 0 across families: (first, second)."""
    shared = np.zeros((len(first), len(second)))
    for family in np.intersect1d(first.family, second.family):
        rows, columns = np.flatnonzero(first.family == family), np.flatnonzero(second.family == family)
        left, right = (np.ascontiguousarray(part.T.astype(np.int32))
                       for part in (first.leaves[rows], second.leaves[columns]))
        count = np.zeros((len(rows), len(columns)), np.int16)
        for one, other in zip(left, right, strict=True):
            count += one[:, None] == other[None, :]
        shared[np.ix_(rows, columns)] = count / len(left)
    return shared


def _covariance(shared: Floats, family: NDArray[np.bool_], problem: NDArray[np.bool_], signal: float,
                offset: float) -> Floats:
    return np.asarray(signal**2 * shared + FAMILY**2 * family + offset**2 * problem)


def _likelihood(covariance: Floats, errors: Floats) -> float:
    """The log marginal likelihood of the errors, up to a constant."""
    factor = np.linalg.cholesky(covariance)
    scaled = np.linalg.solve(factor, errors)
    return float(-0.5 * scaled @ scaled - np.log(np.diag(factor)).sum())


def _carried_over(observations: Observations, others: Floats) -> float:
    """The factor with which corrections by other problems lead to the fastest choices.

    It is 0 unless the mean gain over the problems is larger than its standard error: a few problems prove nothing.
    """
    best, most = 0.0, LEAST_GAIN
    before = _chosen_slowness(observations, observations.expected)
    for factor in FACTORS if len(before) >= LEAST_PROBLEMS else ():
        gains = before - _chosen_slowness(observations, observations.expected + factor * others)
        sure = float(gains.mean() - gains.std(ddof=1) / np.sqrt(len(gains)))
        if sure > most:
            best, most = factor, sure
    return best


def _chosen_slowness(observations: Observations, predicted: Floats) -> Floats:
    """The observed slowness of what is chosen by the predicted slowness, (problem,).

    It is the mean of the first choice's and of a soft choice's among the fastest.
    """
    chosen = []
    for rows in observations.problems():
        weights = np.exp((predicted[rows].min() - predicted[rows]) / SOFTNESS)
        soft = weights @ observations.observed[rows] / weights.sum()
        chosen.append((soft + observations.observed[rows][np.argmin(predicted[rows])]) / 2)
    return np.array(chosen)
