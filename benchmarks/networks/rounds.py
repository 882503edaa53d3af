"""Rounds of a contest: every contestant computes the network in each round, in a new random order.

Before each turn the program rests, so that idle threads of the contestant before stop spinning; then the contestant
computes without being timed, which wakes its own threads, and then a sample is taken.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

REST_SECONDS = 20e-3  # ONNX Runtime and OpenMP let idle threads spin for some milliseconds
WARM_UP_SECONDS = 10e-3  # one call of most networks
SAMPLE_SECONDS = 30e-3  # ten calls of the smallest networks, one call of the largest


def time_rounds(runs: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """The seconds of one call, by contestant and round. The order is seeded by the number of rounds."""
    from seqtune.tuner.backends.backend import wall_clock
    from seqtune.tuner.measuring.timing import sample

    seconds: dict[str, list[float]] = {name: [] for name in runs}
    calls = dict.fromkeys(runs, 1)
    generator = random.Random(rounds)
    for _ in range(rounds):
        for name in generator.sample(list(runs), len(runs)):
            timed = partial(wall_clock, runs[name])
            time.sleep(REST_SECONDS)
            sample(timed, WARM_UP_SECONDS, 1)
            mean, calls[name] = sample(timed, SAMPLE_SECONDS, calls[name])
            seconds[name].append(mean)
    return seconds
