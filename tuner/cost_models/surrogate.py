"""Guess: what a surrogate says of a task's configurations, corrected from what the sources say, if there are any.

It speaks of bent log ratios of times: how slow the slow ones are is soon no matter.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, Task

from .coordinates import Levels
from .gaussian_process import FLAT, Level, Surrogate

POOL = 24_000  # configurations that a surrogate speaks of: all of most spaces, else a sample and the neighbours
BEND = 0.5  # log time ratios r become (1 - exp(-BEND r)) / BEND


class Guess:
    """A surrogate over the pool with what it rests on."""

    def __init__(self, task: Task, generator: np.random.Generator, prior: Floats | None = None,
                 each: Floats | None = None) -> None:
        count = len(task)
        self.prior = np.zeros(count) if prior is None else bend(prior)
        self.slopes = np.zeros((count, 0)) if each is None else np.column_stack(
            [self.prior - self.prior.mean(), bend(each) - self.prior[:, None]])
        others = [] if each is None else [self.prior, *bend(each).T]
        self.levels = Levels(task, generator, others)
        self.surrogate = Surrogate(self.levels.scales)
        self._places = self.levels.of(np.arange(count)) if count <= POOL else None

    def places(self, numbers: Numbers) -> NDArray[np.int16]:
        return self.levels.of(numbers) if self._places is None else self._places[numbers]

    def learn(self, numbers: Numbers, values: Floats, steps: int) -> None:
        self.surrogate.learn(self.places(numbers), self.slopes[numbers], values - self.prior[numbers], steps)

    def watch(self, pool: Numbers) -> None:
        self.surrogate.watch(self.places(pool), self.slopes[pool])
        self._pool_prior = self.prior[pool]

    def condition(self, numbers: Numbers) -> None:
        self.surrogate.condition(self.places(numbers), self.slopes[numbers])

    def append(self, number: int) -> None:
        one = np.array([number])
        self.surrogate.append(self.places(one), self.slopes[one])

    def predict(self, numbers: Numbers, values: Floats, level: Level = FLAT) -> tuple[Floats, Floats]:
        """Of the pool, from the values of the numbers that it was conditioned on; `level`: of their mean."""
        mean, deviation = self.surrogate.predict(values - self.prior[numbers], level)
        return mean + self._pool_prior, deviation

    def evidence(self, numbers: Numbers, values: Floats, level: Level = FLAT) -> float:
        return self.surrogate.evidence(values - self.prior[numbers], level)


def bend(ratios: Floats) -> Floats:
    """Log ratios, compressed where they are large."""
    return np.asarray((1 - np.exp(-BEND * ratios)) / BEND)


def bent(ratio: float) -> float:
    """The same for one ratio of times, of which far below 1 counts like 1 / e."""
    return float(bend(np.array(max(-1.0, math.log(ratio)))))
