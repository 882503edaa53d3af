"""Contests: methods that compute one problem take turns in one process.

Each round takes one sample of every contestant in a new random order; the median of the levelled rounds counts
(`tuner/measuring/comparison.py`). Before a sample, the program rests until idle threads of other pools sleep. Then the
call is repeated without being counted, because its own threads must wake, and after that for the time of a sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.common.report import Row

REST_SECONDS = 0.1  # after 50 ms, idle threads of ONNX Runtime still spun now and then
WARM_UP_SECONDS = 10e-3  # sleeping threads wake; also one call of most networks
SAMPLE_SECONDS = 4e-3


@dataclass(frozen=True)
class Contestant:
    """One method that computes a problem; `run` computes it once."""

    method: str
    run: Callable[[], object]
    error: float  # max|difference| / max|reference|
    details: Mapping[str, Any] = field(default_factory=dict)  # further columns of its rows
    step: Callable[[], float] | None = None  # launches our kernel once, as a program does, and returns its seconds


def take_turns(contestants: Sequence[Contestant], rounds: int, rest: float = REST_SECONDS) -> dict[str, float]:
    """Time the contestants in rounds and return the typical seconds by method."""
    from seqtune.tuner.measuring.comparison import typical
    from seqtune.tuner.measuring.timed_calls import time_calls

    return typical(time_calls({contestant.method: contestant.run for contestant in contestants}, rounds, SAMPLE_SECONDS,
                              WARM_UP_SECONDS, rest))


def rows_of(label: str, threads: int, contestants: Sequence[Contestant], seconds: Mapping[str, float],
            flop: int) -> list[Row]:
    """Make a row for each contestant."""
    return [{"layer": label, "threads": threads, "method": contestant.method, "seconds": seconds[contestant.method],
             "gflops": flop / seconds[contestant.method] / 1e9, "error": contestant.error,
             **contestant.details} for contestant in contestants]


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of positive numbers."""
    return math.exp(sum(map(math.log, values)) / len(values))
