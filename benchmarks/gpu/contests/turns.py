"""Turns: one sample of every contestant in each round, in a new random order; the least sample counts.

The least counts because the homes of earlier days hold it, with which those of a new day are shown.

On a GPU our kernels are timed by their backend: the GPU's events around each launch, after the second-level cache was
overwritten. PyTorch's calls get the same: the cache is overwritten, which takes longer than the host's part of the
call, and events stand around the call. On a CPU both are timed by the host's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.common.contest import Contestant
from seqtune.tuner.backends.backend import wall_clock
from seqtune.tuner.measuring.timed_calls import Timed, time_in_turns

OVERWRITTEN_BYTES = 512 << 20  # more than any L2, and 0.1 ms of time for the host to get ahead
SAMPLE_SECONDS = 2e-3


@dataclass(frozen=True, slots=True)
class Clocked:
    """A contestant and its clock."""

    contestant: Contestant
    timed: Timed


def take_timed_turns(contestants: Sequence[Clocked], rounds: int) -> dict[str, float]:
    """Time the contestants and return the least seconds of one call by method."""
    timed = {entry.contestant.method: entry.timed for entry in contestants}
    return {method: min(samples) for method, samples in time_in_turns(timed, rounds, SAMPLE_SECONDS).items()}


def clock_of(device: str) -> Callable[[Callable[[], Any]], Timed]:
    """The clock for PyTorch's calls on one of its devices."""
    return _gpu_clock() if device == "cuda" else lambda run: partial(wall_clock, run)


def _gpu_clock() -> Callable[[Callable[[], Any]], Timed]:
    import torch

    event: Any = torch.cuda.Event
    scratch = torch.empty(OVERWRITTEN_BYTES, dtype=torch.uint8, device="cuda")

    def timed(run: Callable[[], Any], launches: int) -> float:
        pairs = [(event(enable_timing=True), event(enable_timing=True)) for _ in range(launches)]
        for begin, end in pairs:
            scratch.zero_()
            begin.record()
            run()
            end.record()
        torch.cuda.synchronize()
        return float(sum(begin.elapsed_time(end) for begin, end in pairs)) / 1e3  # milliseconds

    return lambda run: partial(timed, run)
