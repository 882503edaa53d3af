"""Watch: measures the rates of a device, and again where other programs had the CPUs meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ..load import Load, LoadMeter

ATTEMPTS = 3  # times of measuring; a job of a second or two has ended by then
PAUSE = 1.0  # seconds before another attempt
GLANCE = 0.25  # seconds; a load meter needs 0.2

Result = TypeVar("Result")


def watched(measure: Callable[[], Result], attempts: int = ATTEMPTS,
            sleep: Callable[[float], None] = time.sleep) -> tuple[Result, Load]:
    """Measure until the load is light, `attempts` times at most; return the result under the least load, and it."""
    results: list[tuple[Result, Load]] = []
    for attempt in range(attempts):
        if attempt:
            sleep(PAUSE)
        meter = LoadMeter()
        result = measure()
        results.append((result, meter.load()))
        if not results[-1][1].heavy:
            break
    return min(results, key=lambda pair: (pair[1].heavy, pair[1].others + pair[1].stolen))


def busy(sleep: Callable[[float], None] = time.sleep) -> bool:
    """Whether the machine is under a heavy load now, by a quarter of a second in which this process rests."""
    meter = LoadMeter()
    sleep(GLANCE)
    return meter.load().heavy
