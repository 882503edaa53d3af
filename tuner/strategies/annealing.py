"""Simulated annealing: a walk over neighbours that accepts every faster one, and a slower one less and less often.

After Kirkpatrick, Gelatt and Vecchi (Science 220, 1983). The energy is the logarithm of the time, so that temperatures
mean the same for every kernel; the temperature falls geometrically with the number of trials.
"""

from __future__ import annotations

import math

from seqtune.data.record import Measurement

from .searcher import Searcher

# Temperatures: at HOT a configuration twice as slow is accepted with p = 0.25, at COLD one 2 % slower with p = 0.37.
HOT, COLD = 0.5, 0.02
TRIALS = 200  # over which the temperature falls, without a budget


class Annealing(Searcher):
    """Proposes random neighbours of the current configuration; each result in turn may become the current one."""

    _current: int | None = None

    def propose(self, count: int) -> list[int]:
        if self._current is None:
            return self.fresh(1)
        near = self.unproposed(self.task.neighbours(self._current).numbers)
        if not len(near):
            if self._current == self.best:
                return self.fresh(count)
            self._current = self.best
            return self.propose(count)
        chosen: list[int] = self.generator.permutation(near)[:count].tolist()
        return chosen

    def learn(self, number: int, measurement: Measurement) -> None:
        if not math.isfinite(measurement.seconds):
            return
        if self._current is None or self._accepts(math.log(measurement.seconds / self.seconds[self._current])):
            self._current = number

    def _accepts(self, increase: float) -> bool:
        """Whether a result with that increase of the energy becomes the current one."""
        progress = min(1.0, len(self.observed) / (self.trials or TRIALS))
        temperature = HOT * (COLD / HOT) ** progress
        return increase <= 0 or self.generator.random() < math.exp(-increase / temperature)
