"""Simulated annealing: a walk over neighbours that always goes to a faster one, and to a slower one ever more seldom.

After Kirkpatrick, Gelatt and Vecchi (Science 220, 1983). Energy is the logarithm of the time, so that temperatures
mean the same for every kernel; the temperature falls geometrically with the trials.
"""

from __future__ import annotations

import math

from seqtune.data.record import Measurement

from .searcher import Searcher

HOT, COLD = 0.5, 0.02  # a step to twice the time is taken in a quarter of the cases; at the end, one to 1.02 in a third
TRIALS = 200  # over which it cools where the budget does not say


class Annealing(Searcher):
    """Asks for random neighbours of where it stands; results are told one after the other, so that it may move on."""

    _here: int | None = None

    def propose(self, count: int) -> list[int]:
        if self._here is None:
            return self.fresh(1)
        near = self.unasked(self.task.neighbours(self._here).numbers)
        if not len(near):
            if self._here == self.best:
                return self.fresh(count)
            self._here = self.best
            return self.propose(count)
        chosen: list[int] = self.generator.permutation(near)[:count].tolist()
        return chosen

    def learn(self, number: int, measurement: Measurement) -> None:
        if not math.isfinite(measurement.seconds):
            return
        if self._here is None or self._accepts(math.log(measurement.seconds / self.seconds[self._here])):
            self._here = number

    def _accepts(self, rise: float) -> bool:
        done = min(1.0, len(self.told) / (self.trials or TRIALS))
        return rise <= 0 or self.generator.random() < math.exp(-rise / (HOT * (COLD / HOT) ** done))
