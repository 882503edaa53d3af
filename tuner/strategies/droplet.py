"""Droplet Search: coordinate descent from the best of a short exploration, with a significance test on noisy timings.

After Canesche, Rosario, Borin and Pereira, "The Droplet Search Algorithm for Kernel Scheduling" (ACM TACO, 2024), and
its authors' implementation in TVM: kernels' times are nearly convex along each parameter, so neighbours one step away
along every coordinate are measured, speculatively in one batch. The droplet moves to one that is faster beyond noise
(t-test, p <= 0.05); where none is, neighbours are tried ever farther away, up to the longest parameter's end. Then it
has come to rest. What the budget still allows goes to a further exploration and descent from there, which the paper
leaves to the user. A step is one *valid* value onwards, since a constraint may forbid the next one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from seqtune.data.record import Measurement
from seqtune.kernels.kernel import Configuration

from ..measuring.significance import faster
from .searcher import Searcher
from .strategy import SearchContext

EXPLORATION = 16  # random configurations of which the best begins a descent
LEVEL = 0.05  # of the test


class Droplet(Searcher):
    """An exploration, a descent from the best of it, and so on until all was asked for.

    An exploration asks for `EXPLORATION` random configurations, the first one for `seeds` where there are any.
    """

    def __init__(self, context: SearchContext, seeds: Sequence[Configuration] = ()) -> None:
        super().__init__(context)
        self._seeds = self.valid_numbers(seeds)
        self._explore(len(self._seeds) or EXPLORATION)

    def _explore(self, count: int) -> None:
        self._to_explore = self._awaited = count  # to ask for, and to be told, before the descent begins
        self._here: int | None = None  # where the droplet is
        self._samples: Sequence[float] = ()  # its times
        self._begin()

    def _begin(self) -> None:
        """The neighbours of a new place, nearest first."""
        self._reach = 0  # steps tried so far
        self._near = None if self._here is None else self.task.neighbours(self._here)
        self._next: list[int] = []

    def propose(self, count: int) -> list[int]:
        if self._to_explore > 0:
            found, self._seeds = self._seeds[:count], self._seeds[count:]
            found = found or self.fresh(min(count, self._to_explore))
            self._to_explore -= len(found)
            return found
        while self._near is not None and len(self._next) < count and self._reach < self._farthest():
            self._reach += 1
            ring = self._near.numbers[np.abs(self._near.steps) == self._reach]
            self._next += self.generator.permutation(self.unasked(ring)).tolist()
        found, self._next = self._next[:count], self._next[count:]
        if found:
            return found
        self._explore(EXPLORATION)
        return self.propose(count)

    def _farthest(self) -> int:
        assert self._near is not None
        return int(np.abs(self._near.steps).max(initial=0))

    def learn(self, number: int, measurement: Measurement) -> None:
        self._awaited -= 1
        if not math.isfinite(measurement.seconds):
            return
        if self._here is None:
            better = True
        elif self._awaited >= 0:  # an exploration's result
            better = measurement.seconds < self.seconds[self._here]
        else:
            better = faster(measurement.samples, self._samples) <= LEVEL
        if better:
            self._here, self._samples = number, measurement.samples
            self._begin()
