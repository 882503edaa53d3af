"""Candidate: a configuration that a predictor proposes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from seqtune.kernels.kernel import Configuration


@dataclass(frozen=True, slots=True)
class Candidate:
    """A proposed configuration and its log-probability among all valid configurations of its task."""

    configuration: Configuration
    log_probability: float | None = None  # None if the predictor ranks without probabilities

    @property
    def probability(self) -> float | None:
        """The probability in [0, 1], or None if it is unknown."""
        return None if self.log_probability is None else math.exp(min(0.0, self.log_probability))
