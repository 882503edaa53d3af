"""Pace: whether the CPU computes at its usual rate now. While it does not, measuring waits, as far as Patience allows.

A virtual machine's CPUs can be put on one physical core by its host. For half a second or longer, everything on two
threads then takes exactly twice as long, although no thread of the guest waits and no time counts as stolen. Only work
whose time is known shows it.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

from ..backends.backend import ReferenceWork
from .waiting import Waiting

SLOWER = 1.3  # factor on the usual time; rates differ by 10 % between minutes, and shared cores cost a factor of 2
LOOKS = 3  # of which the fastest counts: an interruption of one run is no slow CPU
PAUSE = 0.05  # seconds between two looks while waiting
PATIENCE = 1.5  # seconds of waiting in a row; what is slow for longer may stay so
LEAST = 0.5  # seconds that must be left for waiting to begin: slow phases last that long
APART = 0.05  # seconds between two looks that count for the usual time: in a comparison there are 2,000 in a second
RECENT = 200  # such looks: 10 s or more, longer than most slow phases
QUICK = 0.25  # share of the recent looks that are at most as long as usual: one lucky look does not make all others
#               look slow, and a CPU that is quick in a quarter of the time still shows its usual rate
FEWEST = 8  # looks before their times count: of fewer, the quarter is a single one
SHARE = 0.2  # of the elapsed time may be waited; without a bound, tuning on a slow host waited 60 % of its time
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


class Pace:
    """Compares reference work with its usual time, and waits with the patience of all measuring in this process.

    The usual time is a low quantile of the recent looks, but at most the time that the device's measured rate gives: a
    CPU that stays slow does not become a usual one. Without reference work no CPU is slow. A pace also knows when the
    current request must end; no sample begins after that.
    """

    def __init__(self, work: ReferenceWork | None = None, clock: Callable[[], float] = time.perf_counter,
                 sleep: Callable[[float], None] = time.sleep, waiting: Callable[[], Waiting] = Waiting) -> None:
        """`clock` returns seconds, `sleep` waits so many seconds of this clock, and `waiting` opens its counters."""
        self.clock, self.sleep, self.waiting = clock, sleep, waiting
        self.patience = Patience(clock)
        self._work = work
        self.usual = math.inf if work is None else work.expected  # seconds of the work
        self._recent = deque[float](maxlen=RECENT)  # seconds of the work, APART or more from each other
        self._noted = -math.inf  # when the latest of them was noted
        self._gave_up = False  # what was slow for longer than PATIENCE is waited for only once
        self._end = math.inf

    def begin(self, budget: float) -> None:
        """Begin a request that must end within `budget` seconds."""
        self._end = self.clock() + budget

    @property
    def left(self) -> float:
        """The seconds until the request must end."""
        return self._end - self.clock()

    @property
    def is_over(self) -> bool:
        """Whether the request must end now."""
        return self.left <= 0

    def is_slow(self) -> bool:
        """Return whether the CPU is slow now."""
        if self._work is None:
            return False
        limit, least = SLOWER * self.usual, math.inf
        for _ in range(LOOKS):
            least = min(least, self._work.seconds())
            if least <= limit:
                self._gave_up = False
                break
        self._note(least)
        return least > limit

    def _note(self, seconds: float) -> None:
        """Count the time of a look among those that tell what is usual."""
        now = self.clock()
        if self._work is None or now - self._noted < APART:
            return
        self._noted = now
        self._recent.append(seconds)
        if len(self._recent) >= FEWEST:
            self.usual = min(self._work.expected, sorted(self._recent)[int(QUICK * len(self._recent))])

    def wait_while_slow(self) -> bool:
        """Wait while the CPU is slow, as long as patience and request allow; return whether it is quick now."""
        if not self.is_slow():
            return True
        began = before = self.clock()
        may_wait = not self._gave_up and self.affords(LEAST)
        while may_wait:
            self.sleep(PAUSE)
            is_slow, now = self.is_slow(), self.clock()
            self.patience.spend(now - before)
            before = now
            if not is_slow:
                return True
            self._gave_up = now - began >= PATIENCE
            may_wait = not self._gave_up and self.affords(PAUSE)
        return False

    def affords(self, seconds: float) -> bool:
        """Whether patience and the end of the request allow to wait for so many seconds."""
        return seconds <= min(self.patience.left, self.left)
