"""Measured rates of devices, kept in the user's cache folder: one JSON file per backend."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from platformdirs import user_cache_dir

from seqtune.errors import SeqtuneError
from seqtune.kernels.files import write_whole

Rates = TypeVar("Rates")  # any value that JSON can hold


def cached_rates(file: str, key: str, read: Callable[[Any], Rates], measure: Callable[[], Rates]) -> Rates:
    """Return the rates that the cache file holds under the key, or else measure them and add them to the file.

    `read` makes rates from JSON; it raises LookupError, ValueError or TypeError where the JSON is damaged. The key
    holds all that the rates depend on: model, toolchain, threads. If the file cannot be written, each process measures
    again.
    """
    path = Path(user_cache_dir("seqtune")) / file
    with suppress(LookupError, ValueError, TypeError):
        return read(_read_cache(path)[key])
    rates = measure()
    with suppress(OSError, SeqtuneError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({**_read_cache(path), key: rates}, indent=1))
    return rates


def _read_cache(path: Path) -> dict[str, Any]:
    """The content of a cache file; empty where the file is missing or damaged."""
    with suppress(OSError, ValueError):
        loaded = json.loads(path.read_text())
        if isinstance(loaded, dict):
            return loaded
    return {}
