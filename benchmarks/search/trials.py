"""Trials: the trials of one live search, and the same search at an earlier moment."""

from __future__ import annotations

import math
from dataclasses import dataclass

from seqtune.errors import FormatError


@dataclass(frozen=True, slots=True)
class Trial:
    """One measured configuration."""

    number: int  # the configuration's number in its task
    seconds: float  # the kernel's time, as the search measured it; infinite if it failed
    elapsed: float  # seconds since the search began
    build: float = 0.0  # seconds of building it


@dataclass(frozen=True, slots=True)
class SearchRun:
    """The trials in the order of measurement; each configuration occurs once."""

    trials: tuple[Trial, ...]

    def after(self, count: int) -> SearchRun:
        """The search after its first `count` trials."""
        return SearchRun(self.trials[:count])

    def at(self, elapsed: float) -> SearchRun:
        """The search `elapsed` seconds after its beginning, with its finished trials."""
        return SearchRun(tuple(trial for trial in self.trials if trial.elapsed <= elapsed))

    @property
    def fastest(self) -> int | None:
        """The number of the fastest configuration as the search measured it; None if none was correct."""
        fastest = min(self.trials, key=lambda trial: trial.seconds, default=None)
        return None if fastest is None or math.isinf(fastest.seconds) else fastest.number

    @property
    def elapsed(self) -> float:
        """The seconds until the last trial."""
        return self.trials[-1].elapsed if self.trials else 0.0

    def to_json(self) -> list[list[float | None]]:
        """A list [number, seconds or null, elapsed, build] for each trial."""
        return [[trial.number, trial.seconds if math.isfinite(trial.seconds) else None, trial.elapsed, trial.build]
                for trial in self.trials]

    @classmethod
    def from_json(cls, entries: object) -> SearchRun:
        """The inverse of `to_json`. Raises FormatError."""
        try:
            assert isinstance(entries, list)
            return cls(tuple(
                Trial(int(number), math.inf if seconds is None else float(seconds), float(elapsed), float(build))
                for number, seconds, elapsed, build in entries))
        except (AssertionError, TypeError, ValueError):
            raise FormatError("a stored search does not hold trials; remove the folder of --work") from None
