"""Rates of devices, measured once and then remembered in the user's cache folder: a JSON file for each backend."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from platformdirs import user_cache_dir

from seqtune.errors import SeqtuneError
from seqtune.kernels.files import write_whole

Rates = TypeVar("Rates")  # what JSON can hold


def remembered(file: str, key: str, read: Callable[[Any], Rates], measure: Callable[[], Rates]) -> Rates:
    """What `measure` found for that key, now or before. `read` makes it from JSON, or raises where that is damaged.

    The key holds all that the rates depend on: model, toolchain, threads. Where nothing can be written, it is measured
    again in the next process.
    """
    path = Path(user_cache_dir("seqtune")) / file
    with suppress(LookupError, ValueError, TypeError):
        return read(_held(path)[key])
    found = measure()
    with suppress(OSError, SeqtuneError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({**_held(path), key: found}, indent=1))
    return found


def _held(path: Path) -> dict[str, Any]:
    """All that a cache holds; a damaged one holds nothing."""
    with suppress(OSError, ValueError):
        loaded = json.loads(path.read_text())
        if isinstance(loaded, dict):
            return loaded
    return {}
