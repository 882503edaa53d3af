"""Surrogate: predicts the times of a task's configurations from its measurements, and from a history if there is one.

The values are log time ratios, compressed (`squash`) so that differences among slow configurations hardly count.
"""

from __future__ import annotations

import math

import numpy as np

from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, Task

from .coordinates import Coordinates, LevelIndices
from .gaussian_process import FLAT, GaussianProcess, MeanPrior

MAX_POOL = 24_000  # configurations that are predicted: all of most spaces, otherwise a sample and the neighbours
SQUASH = 0.5  # a log time ratio r becomes (1 - exp(-SQUASH r)) / SQUASH


class Surrogate:
    """A Gaussian process over a pool of a task's configurations.

    `prior` (number,) and `by_source` (number, source) are the log time ratios that a history predicts. With them the
    process models the difference from the prior, with a linear term for each source.
    """

    def __init__(self, task: Task, generator: np.random.Generator, prior: Floats | None = None,
                 by_source: Floats | None = None) -> None:
        count = len(task)
        self.prior = np.zeros(count) if prior is None else squash(prior)
        self.slopes = np.zeros((count, 0)) if by_source is None else np.column_stack(
            [self.prior - self.prior.mean(), squash(by_source) - self.prior[:, None]])
        others = [] if by_source is None else [self.prior, *squash(by_source).T]
        self.coordinates = Coordinates(task, generator, others)
        self.process = GaussianProcess(self.coordinates.axes)
        self._levels = self.coordinates.of(np.arange(count)) if count <= MAX_POOL else None

    def levels(self, numbers: Numbers) -> LevelIndices:
        """The level indices of these configurations: (configuration, axis)."""
        return self.coordinates.of(numbers) if self._levels is None else self._levels[numbers]

    def fit(self, numbers: Numbers, values: Floats, steps: int) -> None:
        """Fit the hyperparameters to the values of these configurations, with that number of gradient steps."""
        self.process.fit(self.levels(numbers), self.slopes[numbers], values - self.prior[numbers], steps)

    def set_pool(self, pool: Numbers) -> None:
        """Set the configurations that `predict` predicts."""
        self.process.set_pool(self.levels(pool), self.slopes[pool])
        self._pool_prior = self.prior[pool]

    def condition(self, numbers: Numbers) -> None:
        """Condition on measurements of these configurations; `predict` and `evidence` get their values."""
        self.process.condition(self.levels(numbers), self.slopes[numbers])

    def append(self, number: int) -> None:
        """Condition on one more configuration."""
        numbers = np.array([number])
        self.process.append(self.levels(numbers), self.slopes[numbers])

    def predict(self, numbers: Numbers, values: Floats, mean_prior: MeanPrior = FLAT) -> tuple[Floats, Floats]:
        """The mean and the standard deviation of every configuration of the pool.

        `values` are the values of `numbers`, the configurations on which the process is conditioned.
        """
        mean, deviation = self.process.predict(values - self.prior[numbers], mean_prior)
        return mean + self._pool_prior, deviation

    def evidence(self, numbers: Numbers, values: Floats, mean_prior: MeanPrior = FLAT) -> float:
        """The log marginal likelihood of the values, up to a constant; arguments as for `predict`."""
        return self.process.evidence(values - self.prior[numbers], mean_prior)


def squash(log_ratios: Floats) -> Floats:
    """Compress log time ratios: nearly linear around 0, bounded for large ones."""
    return np.asarray((1 - np.exp(-SQUASH * log_ratios)) / SQUASH)


def squashed_log(ratio: float) -> float:
    """The squashed logarithm of one ratio of times; ratios below 1 / e count as 1 / e."""
    return float(squash(np.array(max(-1.0, math.log(ratio)))))
