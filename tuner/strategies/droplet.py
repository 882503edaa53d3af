"""Droplet Search: coordinate descent from the best of a short exploration, with a significance test on noisy timings.

After Canesche, Rosario, Borin and Pereira, "The Droplet Search Algorithm for Kernel Scheduling" (ACM TACO, 2024), and
its authors' implementation in TVM. The times of kernels are nearly convex along each parameter, so neighbours one step
away along every coordinate are measured, speculatively in one batch. The droplet moves to a neighbour that is faster
beyond noise (t-test, p <= 0.05). If there is none, neighbours at increasing distances are tried, up to the last value
of the longest parameter; then the descent ends. The rest of the budget goes to further explorations and descents,
which the paper leaves to the user. A step goes to the next *valid* value, since a constraint may forbid the adjacent
one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from seqtune.data.record import Measurement
from seqtune.kernels.kernel import Configuration

from .searcher import Searcher
from .strategy import SearchContext
from .t_test import faster

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
