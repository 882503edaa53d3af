"""Load: the share of the machine's CPU time that other work had during a measurement."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psutil

OTHERS = 0.1  # share of all CPUs' time that other processes may use; a desktop at rest uses 0.01 to 0.03
STOLEN = 0.02  # share that the hypervisor may give to other machines
SHORTEST = 0.2  # seconds; the system counts in hundredths, so the load of a shorter time is not known
KNOWN_WELL = 0.5  # seconds, of which the load is known to 2 % on two CPUs


@dataclass(frozen=True, slots=True)
class Load:
    """The load during a time, as shares of the time of all CPUs."""

    others: float = 0.0  # used by processes that are neither this one nor its descendants
    stolen: float = 0.0  # given to other virtual machines; 0 where the system does not count it

    @property
    def heavy(self) -> bool:
        """Whether times that were measured under this load are doubtful."""
        return self.others > OTHERS or self.stolen > STOLEN

    def __str__(self) -> str:
        stolen = f", other machines {self.stolen:.0%}" if self.stolen > STOLEN else ""
        return f"other processes had {self.others:.0%} of the CPUs{stolen}"


@dataclass(frozen=True, slots=True)
class CpuSeconds:
    """The CPU seconds of this machine so far, of all CPUs together."""

    busy: float  # since the start of the machine
    stolen: float  # withheld by the hypervisor
    own: float  # of this process and all its descendants, including those that have ended

    @classmethod
    def now(cls) -> CpuSeconds:
        """Read the system's counters."""
        times = psutil.cpu_times()._asdict()
        # Linux counts the time of guests as time of the user, too
        busy = sum(times.get(name, 0.0) for name in ("user", "nice", "system", "irq", "softirq"))
        own = sum(os.times()[:4])
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # the child has ended meanwhile; its parent counts its time
                own += sum(child.cpu_times()[:4])
        return cls(busy, times.get("steal", 0.0), own)


class LoadMeter:
    """Measures the load from its creation on."""

    def __init__(self, count: Callable[[], CpuSeconds] = CpuSeconds.now,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._count, self._clock = count, clock
        self._begin, self._first = clock(), count()

    def well_known_load(self) -> Load:
        """The load so far; waits, if need be, until KNOWN_WELL seconds have passed."""
        time.sleep(max(0.0, self._begin + KNOWN_WELL - self._clock()))
        return self.load()

    def load(self) -> Load:
        """The load so far; none if it is not known because too little time has passed."""
        elapsed = self._clock() - self._begin
        if elapsed < SHORTEST:
            return Load()
        capacity = elapsed * (os.cpu_count() or 1)
        first, now = self._first, self._count()
        others, stolen = now.busy - first.busy - (now.own - first.own), now.stolen - first.stolen
        return Load(min(1.0, max(0.0, others / capacity)), min(1.0, max(0.0, stolen / capacity)))
