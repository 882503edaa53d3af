"""Stopwatch: a clock that runs in some blocks only, for a deadline that may be paused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
