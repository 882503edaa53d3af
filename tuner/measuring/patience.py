"""Patience: how long measuring may still wait, so that a shared host cannot hold it up for longer than a fifth."""

from __future__ import annotations

from collections.abc import Callable

SHARE = 0.2  # of the elapsed time; without a bound, tuning on a host that was slow in stretches waited 60 % of its time
SAVED = 3.0  # seconds that can be saved up: two pauses of the length that a pace waits for a slow CPU


class Patience:
    """An account of waiting. Every second that passes allows SHARE seconds of waiting, and SAVED of these are kept.

    Waiting is whatever brings nothing new: a pause until a slow CPU is quick again, and samples that are thrown away
    because they were disturbed. Both are paid from this account, and nobody waits without the means. So the time
    waited is at most SHARE of the elapsed time, whatever the machine does; but a single repetition that takes longer
    than was expected is paid back first. The check of a kernel, its build and its first samples are never waiting.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Open the account, empty. `clock` returns seconds."""
        self._clock = clock
        self._counted = clock()  # the time until which SHARE was added
        self._saved = 0.0
        self.waited = 0.0  # seconds in all

    @property
    def left(self) -> float:
        """The seconds that measuring may wait now; negative while a repetition is paid back."""
        now = self._clock()
        self._saved = min(SAVED, self._saved + SHARE * (now - self._counted))
        self._counted = now
        return self._saved

    def spend(self, seconds: float) -> None:
        """Take what was waited from the account."""
        self._saved = self.left - seconds
        self.waited += seconds
