"""Clock: the time that a retraining may take, and how long its steps took, which later ones take about again."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from seqtune.errors import SeqtuneError
from seqtune.tuner.measuring.deadline import Deadline

from .options import RetrainingOptions

TREES = 0.45  # share of the time after which the trees are cut short


class Clock:
    """The time of a retraining, from now on."""

    def __init__(self, minutes: float, deadline: Deadline | None = None) -> None:
        """Begin now. Without a deadline, `minutes` cut steps short but refuse nothing."""
        self.deadline = Deadline(60 * minutes) if deadline is None else deadline
        self.began = time.monotonic()
        self.took: dict[str, float] = {}  # seconds of the steps that are over, by name
        self._promised = Deadline() if deadline is None else deadline

    @property
    def elapsed(self) -> float:
        """The seconds since the beginning."""
        return time.monotonic() - self.began

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Count the seconds of a step that does not fail."""
        began = time.monotonic()
        yield
        self.took[name] = time.monotonic() - began

    def check(self, needed: float = 0.0) -> None:
        """Raise SeqtuneError if no more than `needed` seconds are left, which the work around the training takes.

        The message names a budget that suffices for what was measured so far: then the trees begin before their share
        of the time is over.
        """
        if self._promised.hard.left <= needed:
            spent = self._promised.elapsed
            minutes = math.ceil(2 * max(spent + needed, spent / TREES) / 60) / 2
            raise SeqtuneError(f"the budget of {self._promised.seconds:.3g} s ends before the training begins, so "
                               f"nothing was written; after {spent:.3g} s of preparation, this machine seems to need "
                               f"about --minutes {max(minutes, 0.5):g} ({RetrainingOptions().minutes:g} by default)")
