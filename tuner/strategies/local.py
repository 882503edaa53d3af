"""Local search: random configurations first, then the neighbours of the best, until it has none left to try.

A neighbour differs in one parameter. With enough of a random start this finds the best known of a space that is too
large for exhaustion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from seqtune.data.record import Measurement
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.union import numbered, shuffled

START = 1000  # random configurations before the climb; half of a budget that allows fewer than twice as many


class Local:
    """A random start, then a climb from the best that runs dry; what a budget still allows then is random again."""

    def __init__(self, spaces: Sequence[SearchSpace], seed: int, trials: int | None = None) -> None:
        self.spaces = {space.kernel.name: space for space in spaces}
        self._start = START if trials is None else min(START, (trials + 1) // 2)
        drawn = shuffled(spaces, seed)[:START if trials is None else trials]
        self._drawn = [numbered(spaces, index) for index in drawn][::-1]
        self._asked: set[Configuration] = set()
        self._best: tuple[float, Configuration | None] = (math.inf, None)
        self._climbing: Configuration | None = None  # whose neighbours are being tried
        self._neighbours: list[Configuration] = []

    def ask(self, count: int) -> list[Configuration]:
        left = self._start - len(self._asked)
        asked = self._draw(min(count, left)) if left > 0 else self._climb(count) or self._draw(count)
        self._asked.update(asked)
        return asked

    def _draw(self, count: int) -> list[Configuration]:
        found: list[Configuration] = []
        while self._drawn and len(found) < count:
            one = self._drawn.pop()
            if one not in self._asked:
                found.append(one)
        return found

    def _climb(self, count: int) -> list[Configuration]:
        best = self._best[1]
        if best is not None and best != self._climbing:
            self._climbing = best
            self._neighbours = [one for one in self.spaces[best.kernel].neighbours(best) if one not in self._asked]
        found, self._neighbours = self._neighbours[:count], self._neighbours[count:]
        return found

    def tell(self, configuration: Configuration, measurement: Measurement) -> None:
        if measurement.seconds < self._best[0]:
            self._best = (measurement.seconds, configuration)
