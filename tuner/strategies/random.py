"""Random search: configurations drawn uniformly, without replacement, from all spaces of the task."""

from __future__ import annotations

from .searcher import Searcher


class Random(Searcher):
    """The baseline that every other strategy must beat at the same budget; without a budget, all configurations."""

    def propose(self, count: int) -> list[int]:
        return self.fresh(count)
