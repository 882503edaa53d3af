"""SharedBudget: one budget of trials for all problems of a group, spent where a search improves most.

It decides as `campaign` does on one machine: each problem gets an equal part of half the budget, then each batch goes
to the problem whose search improved most recently. The first parts are measured side by side. Afterwards a batch is
divided among the members; a group of more than BATCH members works on several problems at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..campaign import BATCH, FIRST, expected_gain, is_open, times
from .group_search import GroupSearch


class SharedBudget:
    """A budget of `total` trials, those in the journal included. The limit of each search is what it may spend."""

    def __init__(self, total: int, batch: int) -> None:
        self.limit = total
        self.batch = min(BATCH, batch)  # trials of a problem before the next problem is chosen
        self.is_choosing = False  # the first parts are spent
        self._searches: Sequence[GroupSearch] = ()
        self._is_over = False

    @property
    def spent(self) -> int:
        """The trials that were made or allotted."""
        return sum(search.limit for search in self._searches)

    def begin(self, searches: Sequence[GroupSearch]) -> None:
        """Allot the first parts, in the order of the problems."""
        self._searches = searches
        self.limit = min(self.limit, sum(len(search.search.task) for search in searches))
        first = FIRST * self.limit / max(1, len(searches))
        self.batch = min(self.batch, max(1, math.ceil(first)))
        left = self.limit - self.spent
        for search in searches:
            size = len(search.search.task)
            while left > 0 and search.limit < min(first, size):
                part = min(self.batch, left, size - search.limit)
                search.limit += part
                left -= part

    def spend(self, members: int) -> Sequence[GroupSearch]:
        """Allot further batches if too few searches have trials to make; return the searches that must go on.

        When the budget is spent, these are all: they may hold their finals. Nothing is returned afterwards.
        """
        if self._is_over or not self._searches:
            return ()
        for search in self._searches:
            search.return_trials()
        chosen: list[GroupSearch] = []
        active = sum(not search.is_idle for search in self._searches)
        while active + len(chosen) < math.ceil(max(1, members) / BATCH) and (left := self.limit - self.spent) > 0:
            candidates = [search for search in self._searches if search.is_idle and is_open(search.search)
                          and not search.is_stopped]
            if not candidates:
                break
            best = max(candidates, key=lambda search: (expected_gain(times(search.search)), -search.search.done))
            best.allot(min(self.batch, left))
            chosen.append(best)
        self.is_choosing |= bool(chosen)
        if active or chosen:
            return chosen
        self._is_over = True
        for search in self._searches:
            search.is_growing = False
        return self._searches
