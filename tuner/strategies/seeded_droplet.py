"""Predictor: the translator's beam first, then Droplet Search from the best of it.

The beam is handed in as `seeds`, since the tuner never imports the predictor; without seeds this is Droplet Search.
"""

from __future__ import annotations

from .droplet import Droplet


class Predictor(Droplet):
    """What the translator thinks likeliest is measured, and the descent begins at the fastest."""

    takes_seeds = True
