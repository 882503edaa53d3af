"""Forecast: how long a collection takes for a problem, and so how many problems its time will complete."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SECONDS = {"llvm": 0.2}  # of a record with its build, on two cores; on all other backends building takes longer
SECONDS_ELSEWHERE = 0.9
LATER = 65  # records of the stages after the trials: proposals, neighbours of the best, a contest in two builds
PAUSE = 30.0  # seconds between two records from which on nothing was measured in between


@dataclass
class Forecast:
    """The expected seconds of a problem, from all stages of those that were measured, or else of its backend."""

    seconds: float
    problems: int = 0  # measured from beginning to end, whose mean `seconds` is

    @classmethod
    def of(cls, backend: str, trials: int, times: Sequence[float]) -> Forecast:
        """The forecast of a device before anything is measured, with `times` of earlier records, in seconds."""
        gaps = np.diff(np.sort(np.asarray(times, float)))
        gaps = gaps[gaps < PAUSE]
        record = float(gaps.mean()) if len(gaps) >= trials else SECONDS.get(backend, SECONDS_ELSEWHERE)
        return cls(record * (trials + LATER))

    def learn(self, problems: int, seconds: float) -> None:
        """Take problems into the mean that were measured from beginning to end in these seconds together."""
        if problems:
            before = self.problems * self.seconds
            self.problems += problems
            self.seconds = (before + seconds) / self.problems

    def block(self, wanted: int, left: float) -> int:
        """The number of problems to measure together: `wanted`, or fewer that can be completed in the seconds left."""
        return max(1, int(min(wanted, left / self.seconds)))

    def text(self, device: str, remaining: int, left: float) -> str:
        """Say what the seconds that are left will buy, in a line."""
        known = f"{device}: {remaining} problem{'s' * (remaining != 1)} to complete, about {self.seconds:.0f} s each"
        if math.isinf(left):
            return f"{known}, {remaining * self.seconds / 60:.0f} min in all"
        complete = min(remaining, int(left / self.seconds))
        buys = f"is enough for about {complete}" if complete else "may complete none (fewer --trials take less)"
        return f"{known}: {left / 60:.3g} min {buys}"
