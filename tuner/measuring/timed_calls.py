"""Timed calls: the seconds of calls that run in rounds in one process, such as our layers and PyTorch's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from ..backends.backend import wall_clock
from .comparison import sample_in_rounds
from .timing import sample

ROUNDS = 11  # the least p-value of the signed-rank test is 2**-11
SAMPLE_SECONDS = 5e-4  # a few calls of a layer, one call of a network

Timed = Callable[[int], float]  # number of calls -> the seconds of all of them


def time_calls(runs: Mapping[str, Callable[[], object]], rounds: int = ROUNDS, sample_seconds: float = SAMPLE_SECONDS,
               warm_up_seconds: float = 0.0, rest: float = 0.0,
               sleep: Callable[[float], None] = time.sleep) -> dict[str, tuple[float, ...]]:
    """The seconds of one call by the host's clock, by name and round; see `time_in_rounds`."""
    return time_in_rounds({name: partial(wall_clock, run) for name, run in runs.items()}, rounds, sample_seconds,
                          warm_up_seconds, rest, sleep)


def time_in_rounds(timed: Mapping[str, Timed], rounds: int, sample_seconds: float, warm_up_seconds: float = 0.0,
                   rest: float = 0.0, sleep: Callable[[float], None] = time.sleep) -> dict[str, tuple[float, ...]]:
    """The seconds of one call, by name and round. The order of each round is random, with a fixed seed.

    A first sample of each name, before the rounds, is not counted. Before each other sample the program sleeps for
    `rest` seconds, so that the idle threads of another pool stop spinning. Then the call is repeated for
    `warm_up_seconds`, at least once, because threads must wake and the previous call used the caches.
    """
    entries = list(timed.values())
    calls = [sample(entry, sample_seconds, 1)[1] for entry in entries]

    def take(index: int) -> float:
        if rest:
            sleep(rest)
        sample(entries[index], warm_up_seconds, 1)
        seconds, calls[index] = sample(entries[index], sample_seconds, calls[index])
        return seconds

    return dict(zip(timed, sample_in_rounds(take, len(entries), rounds, seed=rounds), strict=True))
