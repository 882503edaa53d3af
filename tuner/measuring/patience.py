"""Patience: how long measuring may still wait, so that a shared host cannot hold it up for longer than a fifth."""

from __future__ import annotations

from collections.abc import Callable

SHARE = 0.2  # of the elapsed time; without a bound, tuning on a host that was slow in stretches waited 60 % of its time
SAVED = 3.0  # seconds that can be saved up: two pauses of the length that a pace waits for a slow CPU


class Patience:
    """An account of waiting. Every second that passes allows SHARE seconds of waiting, of which SAVED can be saved up.

    Waiting is time that brings no new sample: a pause until a slow CPU is quick again, and samples that are thrown away
    because they were disturbed. Both are paid from this account, and measuring goes on where it cannot pay. So the time
    waited is at most SHARE of the elapsed time, whatever the machine does. A repetition that takes longer than expected
    may exceed this for a moment: it is paid back before the next one. Builds, checks and first samples are no waiting.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Open the account, empty. `clock` returns seconds."""
        self._clock = clock
        self._counted = clock()  # the time until which SHARE was added
        self._saved = 0.0
        self.waited = 0.0  # seconds in all

    @property
    def left(self) -> float:
        """The seconds that measuring may wait now; negative while a long repetition is paid back."""
        now = self._clock()
        self._saved = min(SAVED, self._saved + SHARE * (now - self._counted))
        self._counted = now
        return self._saved

    def spend(self, seconds: float) -> None:
        """Pay for the seconds that were waited."""
        self._saved = self.left - seconds
        self.waited += seconds
