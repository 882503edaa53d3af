"""Deadline: the end of a time budget, passed down to everything that spends the budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from seqtune.errors import UnpreparedError

GRACE = 0.1  # seconds in which a worker that takes short samples ends by itself
SHARE = 0.05  # of a budget, for less than two seconds


class OutOfTime(UnpreparedError):
    """A budget ended before a measurement that was asked for."""


class Deadline:
    """The end of a budget, from now on. Work that would end after it is not begun, or is broken off."""

    def __init__(self, seconds: float = math.inf, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin now. `clock` returns seconds; while a `Stopwatch` stands still, nothing of the budget is spent."""
        self.seconds = seconds  # the budget
        self._clock = clock
        self._began = clock()

    @property
    def elapsed(self) -> float:
        """The seconds that were spent."""
        return self._clock() - self._began

    @property
    def left(self) -> float:
        """The seconds that are left; 0 after the end."""
        return max(0.0, self.seconds - self.elapsed)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self.left <= 0

    @property
    def grace(self) -> float:
        """The seconds after the end before a process that works is killed."""
        return min(GRACE, SHARE * self.seconds)

    def scaled(self, factor: float) -> Deadline:
        """The deadline of a budget that began at the same time and is so many times as large."""
        other = Deadline(factor * self.seconds, self._clock)
        other._began = self._began
        return other

    def part(self, share: float) -> Deadline:
        """The deadline of a part of the work: it begins now and has a share of the seconds that are left."""
        return Deadline(share * self.left, self._clock)
