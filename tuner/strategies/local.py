"""Local search: random configurations first, then the neighbours of the best, until it has none left to try.

A neighbour differs in one parameter. With enough of a random start this finds the best known of a space that is too
large for exhaustion.
"""

from __future__ import annotations

import numpy as np

from .searcher import Searcher
from .strategy import SearchContext

START = 1000  # random configurations before the climb; half of a budget that allows fewer than twice as many


class Local(Searcher):
    """A random start, then a climb from the best that runs dry; what a budget still allows then is random again."""

    def __init__(self, context: SearchContext) -> None:
        super().__init__(context)
        self._start = START if self.trials is None else min(START, (self.trials + 1) // 2)
        self.order = self.order[:START if self.trials is None else self.trials]  # without a budget it ends
        self._asked = 0
        self._climbing: int | None = None  # the number whose neighbours are being tried
        self._neighbours: list[int] = []

    def propose(self, count: int) -> list[int]:
        left = self._start - self._asked
        numbers = self.fresh(min(count, left)) if left > 0 else self._climb(count) or self.fresh(count)
        self._asked += len(numbers)
        return numbers

    def _climb(self, count: int) -> list[int]:
        """The next neighbours of the best, nearest values first."""
        if self.best is not None and self.best != self._climbing:
            self._climbing, near = self.best, self.task.neighbours(self.best)
            self._neighbours = self.unasked(near.numbers[np.argsort(near.distances, kind="stable")]).tolist()
        numbers, self._neighbours = self._neighbours[:count], self._neighbours[count:]
        return numbers
