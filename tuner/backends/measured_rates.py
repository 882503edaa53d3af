"""Measured rates of devices, kept in the user's cache folder: one JSON file per backend.

Rates that were measured while other programs ran are wrong by any factor, and models read them. Therefore the load is
watched, and such rates are not kept for good: they answer only while the machine is still busy, and for MINUTES at
most, so that not every process of a busy machine spends seconds on measuring again.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from platformdirs import user_cache_dir

from seqtune.errors import SeqtuneError, SeqtuneWarning
from seqtune.kernels.files import read_bounded, write_whole

if TYPE_CHECKING:
    from ..load import Load

Rates = TypeVar("Rates")  # any value that JSON can hold

WATCHED = " | measured quietly"  # ends the keys of rates that hold; earlier versions kept rates without watching
DISTURBED = " | disturbed"  # ends the keys of rates that hold while the machine is busy
MOST_BYTES = 8_000_000  # of a cache file; an entry has some hundred
MINUTES = 10  # in which a background job ends, or goes on for so long that five seconds of measuring do not matter

_disturbed: dict[str, Load] = {}  # the keys of the rates in this process that were disturbed, and the load


def cached_rates(file: str, key: str, read: Callable[[Any], Rates], measure: Callable[[], Rates]) -> Rates:
    """Return the rates that the cache file holds under the key, or else measure them and add them to the file.

    `read` makes rates from JSON; it raises LookupError, ValueError or TypeError where the JSON is damaged. The key
    holds all that the rates depend on: model, toolchain, threads. If the file cannot be written, each process measures
    again. The first rates that were disturbed cause a SeqtuneWarning.
    """
    path = Path(user_cache_dir("seqtune")) / file
    cache = _read_cache(path)
    with suppress(LookupError, ValueError, TypeError):
        return read(cache[key + WATCHED])
    with suppress(LookupError, ValueError, TypeError):
        entry = cache[key + DISTURBED]
        rates, age = read(entry["rates"]), time.time() - float(entry["measured_at"])
        from ..load import Load  # loads psutil, which most processes do not need
        from .watch import busy

        load = Load(float(entry["others"]), float(entry["stolen"]))
        if 0 <= age < 60 * MINUTES and (_disturbed or busy()):
            _warn(key, load)
            return rates
    rates, load = _measure(measure)
    if load.heavy:
        _warn(key, load)
    _write(path, key, rates, load)
    return rates


def doubt() -> str | None:
    """One line about the rates in this process that were measured while the machine was busy, or None."""
    if not _disturbed:
        return None
    return (f"rates of {len(_disturbed)} device{'s' * (len(_disturbed) > 1)} were measured while "
            f"{next(iter(_disturbed.values()))}; they are measured again once the machine is quiet")


def _measure(measure: Callable[[], Rates]) -> tuple[Rates, Load]:
    """Measure, again where it was disturbed; but where a device before was disturbed to the end, only once."""
    from .watch import ATTEMPTS, watched

    return watched(measure, 1 if _disturbed else ATTEMPTS)


def _warn(key: str, load: Load) -> None:
    first = not _disturbed
    _disturbed[key] = load
    if first:
        warnings.warn(f"the rates of devices were measured while {load}: proposals may be worse until they are "
                      "measured again on a quiet machine, which happens by itself", SeqtuneWarning, stacklevel=3)


def _write(path: Path, key: str, rates: Any, load: Load) -> None:
    """Add the rates to the file. Other processes may have written meanwhile, so it is read again."""
    with suppress(OSError, SeqtuneError):
        path.parent.mkdir(parents=True, exist_ok=True)
        cache = _read_cache(path)
        cache.pop(key + DISTURBED, None)
        entry = {key + WATCHED: rates} if not load.heavy else {
            key + DISTURBED: {"rates": rates, "measured_at": time.time(), **asdict(load)}}
        write_whole(path, json.dumps({**cache, **entry}, indent=1))


def _read_cache(path: Path) -> dict[str, Any]:
    """The content of a cache file; empty where the file is missing or damaged."""
    with suppress(SeqtuneError, ValueError, RecursionError):
        loaded = json.loads(read_bounded(path, MOST_BYTES, only_regular=True))
        if isinstance(loaded, dict):
            return loaded
    return {}
