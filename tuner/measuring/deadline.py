"""Deadline: the end of a time budget, passed down to everything that spends the budget; and the default budgets.

The command line's help reads the defaults, so the module loads nothing heavy.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from seqtune.errors import UnpreparedError

SECONDS = 10.0  # budget of a verification with its builds: hundreds of rounds of small problems, a dozen of large ones
NETWORK = 60.0  # budget for comparing a network with PyTorch's code; Inductor compiles 130 operations in half of it
CALIBRATION = 180.0  # budget of a calibration: about 4000 probes; a correction is fitted to 800 of all measurements
OVERRUN = 1.2  # factor on a budget at which measuring is broken off. A user may rely on 1.3 times the budget; the time
#                between is for ending a worker and writing the records
GRACE = 0.1  # seconds in which a worker that takes short samples ends by itself
MOST_GRACE = 0.05  # as a share of the budget: below two seconds it is less than GRACE


class OutOfTime(UnpreparedError):
    """A budget ended before the measurement that was asked for."""


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
        """The seconds after the end in which a working process may end by itself, before it is killed."""
        return min(GRACE, MOST_GRACE * self.seconds)

    @property
    def hard(self) -> Deadline:
        """The later deadline at which measuring is broken off: OVERRUN times this budget."""
        return self.scaled(OVERRUN)

    def scaled(self, factor: float) -> Deadline:
        """The deadline of a budget that began at the same time and is `factor` times as large."""
        other = Deadline(factor * self.seconds, self._clock)
        other._began = self._began
        return other

    def part(self, share: float) -> Deadline:
        """The deadline of a part of the work: it begins now and has a share of the seconds that are left."""
        return Deadline(share * self.left, self._clock)


class Stopwatch:
    """Called like `time.monotonic`; it returns the seconds that were spent in blocks of `running`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin at 0, standing still."""
        self._clock = clock
        self._spent = 0.0  # seconds of the blocks that ended
        self._began: float | None = None  # on the clock, while a block runs

    def __call__(self) -> float:
        """The seconds so far."""
        return self._spent + (0.0 if self._began is None else self._clock() - self._began)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run during a block, which may end with an exception. Blocks do not nest."""
        self._began = self._clock()
        try:
            yield
        finally:
            self._spent, self._began = self(), None
