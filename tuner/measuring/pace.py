"""Pace: whether the CPU computes at its usual rate now. While it does not, measuring waits.

A virtual machine's CPUs can be put on one physical core by its host. For half a second or longer, everything on two
threads then takes exactly twice as long, although no thread of the guest waits and no time counts as stolen. Only work
whose time is known shows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SLOWER = 1.3  # factor on the usual time; rates differ by 10 % between minutes, and shared cores cost a factor of 2
LOOKS = 3  # of which the fastest counts: an interruption of one run is no slow CPU
PAUSE = 0.05  # seconds between two looks while waiting
PATIENCE = 1.5  # seconds of waiting in a row; what is slow for longer may stay so, and a worker has a time limit


class Pace:
    """Compares reference work with its usual time: the time that the device's measured rate gives, or a shorter one."""

    def __init__(self, seconds: Callable[[], float], expected: float, clock: Callable[[], float] = time.monotonic,
                 sleep: Callable[[float], None] = time.sleep) -> None:
        """`seconds` does the reference work once and returns its time, `expected` is that time on a quiet machine."""
        self._seconds, self._clock, self._sleep = seconds, clock, sleep
        self._usual = expected
        self._gave_up = False  # what was slow for longer than PATIENCE is waited for only once

    def is_slow(self) -> bool:
        """Return whether the CPU is slow now."""
        for _ in range(LOOKS):
            taken = self._seconds()
            self._usual = min(self._usual, taken)
            if taken <= SLOWER * self._usual:
                self._gave_up = False
                return False
        return True

    def settle(self) -> bool:
        """Wait for at most PATIENCE seconds while the CPU is slow; return whether it has its usual rate."""
        end = self._clock() + (0.0 if self._gave_up else PATIENCE)
        while self.is_slow():
            if self._clock() >= end:
                self._gave_up = True
                return False
            self._sleep(PAUSE)
        return True
