"""SharedBudget: one budget of trials for all problems of a plan, spent where a search improves most.

Without a shared budget there is nothing to decide: the problems follow one another, each with the limit of its own
budget. With one, each problem first gets an equal part of half the budget, in the order of the problems. Then each
batch of trials goes to the problem whose search improved most recently, or had the fewest trials. Its strategy is built
again, with the history of all other problems so far.

A search starts with the trials that the journal has of its problem, so running a plan again resumes it. A resumed run
depends only on the journal, and measures nothing that is in the journal. It may try different configurations than an
uninterrupted one, because rebuilt strategies know more and an interrupted batch is not completed.

One machine measures one batch at a time. A group of a fleet measures the first parts side by side and divides a batch
among its members; with more than ALLOTTED members it works on several problems at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from .search import Search

ALLOTTED = 4  # trials of a problem before the next problem is chosen
FIRST = 0.5  # share of the budget that the first phase divides equally
RECENT = 6  # trials from which the expected gain of a search is estimated


class Schedulable(Protocol):
    """A search that measures, as the budget sees it: its trials, and whether it has work."""

    search: Search  # its trials, and the limit that the budget raises; one that has ended is not continued

    @property
    def is_idle(self) -> bool:
        """Whether it has made all trials that it may make, or has no more to propose."""
        ...


Searching = TypeVar("Searching", bound=Schedulable)


class SharedBudget(Generic[Searching]):
    """A budget of `total` trials, those in the journal included. The limit of each search is what it may spend."""

    def __init__(self, total: int, batch: int, searches: Sequence[Searching]) -> None:
        """Share a budget. `batch` is the most that a strategy is asked for at a time."""
        self.searches = searches
        self.limit = min(total, sum(len(each.search.task) for each in searches))
        self._first = FIRST * self.limit / max(1, len(searches))
        self.batch = min(ALLOTTED, batch, max(1, math.ceil(self._first)))  # trials before the next problem is chosen
        self.is_choosing = False  # whether the first parts are spent

    @property
    def spent(self) -> int:
        """The trials that were made or allotted."""
        return sum(each.search.limit for each in self.searches)

    def allot_first(self, searching: Searching) -> bool:
        """Allot a search the next batch of its first part; false if it has the whole part, or the budget is spent."""
        search = searching.search
        size = len(search.task)
        if search.ended or search.limit >= min(self._first, size):
            return False
        count = min(self.batch, self.limit - self.spent, size - search.limit)
        search.limit += max(0, count)
        return count > 0

    def allot_next(self, members: int = 1) -> Sequence[Searching]:
        """Allot batches to the searches with the greatest expected gain, and return them.

        There are so many that `members` have work. None is returned while enough others are at work, or if the budget
        is spent. Unused trials of idle searches are given back first.
        """
        for each in self.searches:
            if each.is_idle:
                each.search.limit = each.search.done
        chosen: list[Searching] = []
        active = self.active
        while active + len(chosen) < math.ceil(max(1, members) / ALLOTTED) and (left := self.limit - self.spent) > 0:
            candidates = [each for each in self.searches if each.is_idle and not each.search.ended
                          and each.search.done < len(each.search.task)]
            if not candidates:
                break
            best = max(candidates, key=lambda each: (expected_gain(each.search.times), -each.search.done))
            best.search.limit = min(best.search.limit + min(self.batch, left), len(best.search.task))
            chosen.append(best)
        self.is_choosing |= bool(chosen)
        return chosen

    @property
    def active(self) -> int:
        """The number of searches at work."""
        return sum(not each.is_idle for each in self.searches)


def expected_gain(seconds: Sequence[float]) -> float:
    """The expected gain of one more trial, in log time: the mean gain of the last `RECENT` trials.

    It is infinite with fewer than two trials, or if only the last ones succeeded, and 0 if every trial failed.
    """
    count, least = min(RECENT, len(seconds) // 2), min(seconds, default=math.inf)
    if not count:
        return math.inf
    return math.log(min(seconds[:-count]) / least) / count if math.isfinite(least) else 0.0
