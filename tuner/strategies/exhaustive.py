"""Exhaustive search: random search until every configuration was tried.

The order is random for two reasons: a good configuration is found early, so that slow candidates are dropped after few
samples, and a run that is stopped has sampled the whole space evenly.
"""

from __future__ import annotations

from .random import Random


class Exhaustive(Random):
    """Proposes every configuration of every space once."""
