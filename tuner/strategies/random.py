"""Random search: configurations drawn uniformly, without replacement, from all spaces of the task.

An exhaustive search is a random one until every configuration was tried. The order is random for two reasons: a good
configuration is found early, so that slow candidates are dropped after few samples, and a run that is stopped has
sampled the whole space evenly.
"""

from __future__ import annotations

from .searcher import Searcher


class Random(Searcher):
    """The baseline that every other strategy must beat at the same budget; without a budget, all configurations."""

    def propose(self, count: int) -> list[int]:
        return self.fresh(count)


class Exhaustive(Random):
    """Proposes every configuration of every space once."""
