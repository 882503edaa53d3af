"""Repetition: a device's rates are measured several times, spread over a second, until the best values agree.

A repetition is no comparison, so `measuring.comparison` is not asked. Each rate is a fact of the device by itself: the
rates have different units, and none is called faster than another one. The best value of each counts, and measuring
ends where the two best values agree, so the number of repetitions is not planned, as that of rounds is.

For a tenth of a second, a host may run both threads of a virtual machine on one core, and every sample of that time
agrees with the others. Repetitions with pauses between them do not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

PAUSE = 0.05  # seconds between two repetitions

Values = Mapping[str, float]  # rates, or seconds, of one repetition by name


def repeat_until_agreement(measure: Callable[[], Values], agree: Callable[[Sequence[Values]], bool], least: int,
                           seconds: float, clock: Callable[[], float] = time.perf_counter,
                           sleep: Callable[[float], None] = time.sleep) -> list[Values]:
    """Measure at least `least` times, and again until the values agree or `seconds` have passed."""
    began, repetitions = clock(), list[Values]()
    while len(repetitions) < least or (clock() - began < seconds and not agree(repetitions)):
        if repetitions:
            sleep(PAUSE)
        repetitions.append(measure())
    return repetitions


def best_agree(values: Sequence[float], within: float, largest: bool = False) -> bool:
    """Whether the two least values (or the two largest) differ by a share of `within` at most."""
    first, second = sorted(values, reverse=largest)[:2]
    low, high = sorted((first, second))
    return high <= low * (1 + within)
