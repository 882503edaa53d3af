"""Seeded Droplet Search: first the predictor's proposals, then Droplet Search from the best of them.

The proposals are the context's `seeds`, since the tuner never imports the predictor; without seeds this is Droplet
Search. Its name in the table of strategies is `predictor`.
"""

from __future__ import annotations

from .droplet import Droplet
from .strategy import SearchContext


class SeededDroplet(Droplet):
    """Measures the predictor's proposals and begins the descent at the fastest of them."""

    def __init__(self, context: SearchContext) -> None:
        super().__init__(context, context.seeds)
