"""Turns: several short measurements of all rates of a device, spread over a second.

Turns are no comparison, so `measuring.comparison` is not asked. Each rate is a fact of the device by itself: the rates
of a turn have different units, and none is called faster than another one. The best value of each counts, and turns
end where the two best values agree, so their number is not planned, as that of rounds is.

For a tenth of a second, a host may run both threads of a virtual machine on one core, and every sample of that time
agrees with the others. Turns with pauses between them do not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

PAUSE = 0.05  # seconds between two turns

Turn = Mapping[str, float]  # rates or seconds by name


def in_turns(turn: Callable[[], Turn], agree: Callable[[Sequence[Turn]], bool], least: int, seconds: float,
             clock: Callable[[], float] = time.perf_counter, sleep: Callable[[float], None] = time.sleep) -> list[Turn]:
    """Take at least `least` turns, and more until they agree or `seconds` have passed."""
    began, turns = clock(), list[Turn]()
    while len(turns) < least or (clock() - began < seconds and not agree(turns)):
        if turns:
            sleep(PAUSE)
        turns.append(turn())
    return turns


def best_agree(values: Sequence[float], within: float, largest: bool = False) -> bool:
    """Whether the two least values (or the two largest) differ by a share of `within` at most."""
    first, second = sorted(values, reverse=largest)[:2]
    low, high = sorted((first, second))
    return high <= low * (1 + within)
