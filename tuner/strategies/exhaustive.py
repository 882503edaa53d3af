"""Exhaustive search: random search that goes on to the end.

Random order, because the best so far is then soon a good one, by which hopeless candidates are dropped early, and
because a run that ends early has still seen the whole space evenly.
"""

from __future__ import annotations

from .random import Random


class Exhaustive(Random):
    """Every configuration of every space, once."""
