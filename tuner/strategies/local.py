"""Local search: random configurations first, then the neighbours of the best, until no new neighbour is left.

A neighbour differs in one parameter. After enough random configurations this finds the best known configuration of
spaces that are too large for exhaustive search.
"""

from __future__ import annotations

import numpy as np

from .searcher import Searcher
from .strategy import SearchContext

START = 1000  # random configurations before the climb; half of the budget if that is fewer


class Local(Searcher):
    """Explores at random, climbs from the best until no neighbour is left, then spends the rest at random."""

    def __init__(self, context: SearchContext) -> None:
        super().__init__(context)
        self._start = START if self.trials is None else min(START, (self.trials + 1) // 2)
        self.order = self.order[:START if self.trials is None else self.trials]  # no budget: the climb ends it
        self._proposed_count = 0
        self._climbing: int | None = None  # the number whose neighbours are proposed
        self._neighbours: list[int] = []

    def propose(self, count: int) -> list[int]:
        left = self._start - self._proposed_count
        numbers = self.fresh(min(count, left)) if left > 0 else self._climb(count) or self.fresh(count)
        self._proposed_count += len(numbers)
        return numbers

    def _climb(self, count: int) -> list[int]:
        """The next neighbours of the best, the nearest values first."""
        if self.best is not None and self.best != self._climbing:
            self._climbing, near = self.best, self.task.neighbours(self.best)
            self._neighbours = self.unproposed(near.numbers[np.argsort(near.distances, kind="stable")]).tolist()
        numbers, self._neighbours = self._neighbours[:count], self._neighbours[count:]
        return numbers
