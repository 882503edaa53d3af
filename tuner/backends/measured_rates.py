"""Measured rates of devices, kept in the user's cache folder: one JSON file per backend.

Rates that were measured while other programs ran are wrong by any factor, and models read them. Therefore the load is
measured, too, and such rates are used only while the machine is still busy, for MINUTES at most: otherwise every
process of a busy machine would spend seconds on measuring again.

A device's rates are measured several times, spread over a second, until the best values agree. A repetition is no
comparison, so `measuring.comparison` is not asked. Each rate is a fact of the device by itself: the rates have
different units, and none is called faster than another one. The best value of each counts, and measuring ends where the
two best values agree, so the number of repetitions is not planned, as that of rounds is.

For a tenth of a second, a host may run both threads of a virtual machine on one core, and every sample of that time
agrees with the others. Repetitions with pauses between them do not.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from seqtune.errors import SeqtuneError, warned
from seqtune.kernels.files import read_bounded, write_whole
from seqtune.kernels.own_folders import cache_folder

if TYPE_CHECKING:
    from ..load import Load, LoadMeter
from collections.abc import Mapping, Sequence

Rates = TypeVar("Rates")  # any value that JSON can hold

WATCHED = " | measured quietly"  # ends the keys of rates that hold; earlier versions kept rates without watching
DISTURBED = " | disturbed"  # ends the keys of rates that hold while the machine is busy
MOST_BYTES = 8_000_000  # of a cache file; an entry has some hundred
MINUTES = 10  # in which a background job ends, or goes on for so long that five seconds of measuring do not matter
ATTEMPTS = 3  # times of measuring; a job of a second or two has ended by then
PAUSE = 1.0  # seconds before another attempt
GLANCE = 0.25  # seconds of rest that show whether the machine is busy; a load meter needs 0.2


def open_load_meter() -> LoadMeter:
    """A load meter that begins now."""
    from ..load import LoadMeter  # loads psutil, which most processes do not need

    return LoadMeter()


class RateCache:
    """Measured rates in a folder, one file per backend, and the load under which this process measured some of them."""

    def __init__(self, folder: Path | None = None, *, clock: Callable[[], float] = time.time,
                 sleep: Callable[[float], None] = time.sleep,
                 open_meter: Callable[[], LoadMeter] = open_load_meter) -> None:
        """`folder` is the user's cache folder by default; `clock` returns seconds since 1970."""
        self.folder = folder
        self.disturbed: dict[str, Load] = {}  # key of rates of this process that were disturbed -> the load
        self._has_warned = False
        self._clock, self._sleep, self._open_meter = clock, sleep, open_meter

    def rates(self, file: str, key: str, read: Callable[[Any], Rates], measure: Callable[[], Rates]) -> Rates:
        """Return the rates that the file holds under the key, or else measure them and add them to the file.

        `read` makes rates from JSON; it raises LookupError, ValueError or TypeError where the JSON is damaged. The key
        holds all that the rates depend on: model, toolchain, threads. If the file cannot be written, each process
        measures again. Rates that were disturbed are listed in `disturbed`.
        """
        path = (cache_folder() if self.folder is None else self.folder) / file
        cache = _read_cache(path)
        with suppress(LookupError, ValueError, TypeError):
            return read(cache[key + WATCHED])
        with suppress(LookupError, ValueError, TypeError):
            entry = cache[key + DISTURBED]
            rates, age = read(entry["rates"]), self._clock() - float(entry["measured_at"])
            from ..load import Load

            load = Load(float(entry["others"]), float(entry["stolen"]))
            if 0 <= age < 60 * MINUTES and (self.disturbed or self._is_busy()):
                self.disturbed[key] = load
                return rates
        rates, load = self._measure(measure)
        if load.heavy:
            self.disturbed[key] = load
        self._write(path, key, rates, load)
        return rates

    def doubt(self) -> str | None:
        """One line about the rates of this process that were measured while the machine was busy, or None."""
        if not self.disturbed:
            return None
        return (f"rates of {len(self.disturbed)} device{'s' * (len(self.disturbed) > 1)} were measured while "
                f"{next(iter(self.disturbed.values()))}; they are measured again once the machine is quiet")

    def warn(self) -> None:
        """Issue a SeqtuneWarning, once, if rates of this process were measured while the machine was busy."""
        if self.disturbed and not self._has_warned:
            self._has_warned = True
            warned(f"the rates of devices were measured while {next(iter(self.disturbed.values()))}: proposals may be "
                   "worse; run `seqtune doctor` when the machine is quiet, which measures them again")

    def _is_busy(self) -> bool:
        """Whether the machine is under a heavy load now, by a quarter of a second in which this process rests."""
        meter = self._open_meter()
        self._sleep(GLANCE)
        return meter.load().heavy

    def _measure(self, measure: Callable[[], Rates]) -> tuple[Rates, Load]:
        """Measure until the load is light, ATTEMPTS times at most; return the rates under the least load, and the load.

        Where another device of this process was disturbed to the end, measure only once.
        """
        results: list[tuple[Rates, Load]] = []
        for attempt in range(1 if self.disturbed else ATTEMPTS):
            if attempt:
                self._sleep(PAUSE)
            meter = self._open_meter()
            rates = measure()
            results.append((rates, meter.load()))
            if not results[-1][1].heavy:
                break
        return min(results, key=lambda pair: (pair[1].heavy, pair[1].others + pair[1].stolen))

    def _write(self, path: Path, key: str, rates: Any, load: Load) -> None:
        """Add the rates to the file. Other processes may have written meanwhile, so the file is read again."""
        with suppress(OSError, SeqtuneError):
            path.parent.mkdir(parents=True, exist_ok=True)
            cache = _read_cache(path)
            cache.pop(key + DISTURBED, None)
            entry = {key + WATCHED: rates} if not load.heavy else {
                key + DISTURBED: {"rates": rates, "measured_at": self._clock(), **asdict(load)}}
            write_whole(path, json.dumps({**cache, **entry}, indent=1))


RATES = RateCache()  # of this process, in the user's cache folder
doubt, warn_of_doubt = RATES.doubt, RATES.warn  # for what answers from the rates of devices


def _read_cache(path: Path) -> dict[str, Any]:
    """The content of a cache file; empty where the file is missing or damaged."""
    with suppress(SeqtuneError, ValueError, RecursionError):
        loaded = json.loads(read_bounded(path, MOST_BYTES, only_regular=True))
        if isinstance(loaded, dict):
            return loaded
    return {}


REST = 0.05  # seconds between two repetitions

Values = Mapping[str, float]  # rates, or seconds, of one repetition by name


def repeat_until_agreement(measure: Callable[[], Values], agree: Callable[[Sequence[Values]], bool], least: int,
                           seconds: float, clock: Callable[[], float] = time.perf_counter,
                           sleep: Callable[[float], None] = time.sleep) -> list[Values]:
    """Measure at least `least` times, and again until the values agree or `seconds` have passed."""
    began, repetitions = clock(), list[Values]()
    while len(repetitions) < least or (clock() - began < seconds and not agree(repetitions)):
        if repetitions:
            sleep(REST)
        repetitions.append(measure())
    return repetitions


def best_agree(values: Sequence[float], within: float, largest: bool = False) -> bool:
    """Whether the two least values (or the two largest) differ by a share of `within` at most."""
    first, second = sorted(values, reverse=largest)[:2]
    low, high = sorted((first, second))
    return high <= low * (1 + within)
