"""Candidate: a configuration that a predictor proposes, and the confidence in it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from seqtune.kernels.kernel import Configuration


@dataclass(frozen=True, slots=True)
class Confidence:
    """The expected speed of a configuration as a share of the best one's, from 0 to 1, with an interval of 80 %.

    The share is above `low` in 90 % of all cases, and above `high` in 10 %. Where an interval was extended to the width
    of an earlier one, these are at least 90 % and at most 10 %.
    """

    share: float
    low: float
    high: float

    def __str__(self) -> str:
        return (f"expected to reach {100 * self.share:.0f} % of the best speed (80 %: {100 * self.low:.0f} to "
                f"{100 * self.high:.0f})")

    def to_json(self) -> dict[str, float]:
        """A JSON object."""
        return {"share": self.share, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A proposed configuration and its log-probability among all valid configurations of its task."""

    configuration: Configuration
    log_probability: float | None = None  # None if the predictor ranks without probabilities
    confidence: Confidence | None = None  # None if the predictor does not estimate it

    @property
    def probability(self) -> float | None:
        """The probability in [0, 1], or None if it is unknown."""
        return None if self.log_probability is None else math.exp(min(0.0, self.log_probability))


def doubt_about(candidate: Candidate, least: float) -> str:
    """Why a first proposal is not expected to reach the share `least` of the best speed; empty where it is."""
    if candidate.confidence is None:
        return "the predictor does not estimate its confidence"
    if candidate.confidence.share < least:
        return f"the first proposal is {candidate.confidence}, less than {100 * least:g} %"
    return ""
