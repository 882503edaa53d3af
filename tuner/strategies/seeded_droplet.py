"""Seeded Droplet Search: the predictor's beam first, then Droplet Search from the best of it.

The beam comes as the context's `seeds`, since the tuner never imports the predictor; without seeds this is Droplet
Search. Its name in the table of strategies is `predictor`.
"""

from __future__ import annotations

from .droplet import Droplet
from .strategy import SearchContext


class SeededDroplet(Droplet):
    """Measures what the predictor thinks likeliest and begins the descent at the fastest."""

    def __init__(self, context: SearchContext) -> None:
        super().__init__(context, context.seeds)
