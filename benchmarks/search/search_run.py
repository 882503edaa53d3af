"""SearchRun: the trials of one live search, and its incumbent (the fastest configuration so far) at any moment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from seqtune.errors import FormatError


@dataclass(frozen=True, slots=True)
class Trial:
    """One measured configuration."""

    number: int  # of the configuration in its task
    seconds: float  # of the kernel, as the search measured it; infinite if it failed
    elapsed: float  # seconds since the search began


@dataclass(frozen=True, slots=True)
class SearchRun:
    """The trials in the order of measurement; each configuration occurs once."""

    trials: tuple[Trial, ...]

    def after(self, count: int) -> int | None:
        """The number of the fastest of the first `count` trials; None if all failed."""
        return _fastest(self.trials[:count])

    def at(self, elapsed: float) -> int | None:
        """The number of the fastest trial that was finished `elapsed` seconds after the beginning; None if none was."""
        return _fastest([trial for trial in self.trials if trial.elapsed <= elapsed])

    @property
    def elapsed(self) -> float:
        """The seconds until the last trial."""
        return self.trials[-1].elapsed if self.trials else 0.0

    def to_json(self) -> list[list[float | None]]:
        """A list [number, seconds or null, elapsed] for each trial."""
        return [[trial.number, trial.seconds if math.isfinite(trial.seconds) else None, trial.elapsed]
                for trial in self.trials]

    @classmethod
    def from_json(cls, entries: object) -> SearchRun:
        """The inverse of `to_json`. Raises FormatError."""
        try:
            assert isinstance(entries, list)
            return cls(tuple(Trial(int(number), math.inf if seconds is None else float(seconds), float(elapsed))
                             for number, seconds, elapsed in entries))
        except (AssertionError, TypeError, ValueError):
            raise FormatError("a stored search does not hold trials; remove the folder of --work") from None


def _fastest(trials: Sequence[Trial]) -> int | None:
    fastest = min(trials, key=lambda trial: trial.seconds, default=None)
    return None if fastest is None or math.isinf(fastest.seconds) else fastest.number
