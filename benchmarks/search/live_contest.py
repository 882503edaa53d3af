"""Live contest: the incumbents of all searches of a problem, measured together, so that all are judged alike.

No search is judged by its own least time, which is too small: it is the least of many noisy ones. All incumbents of all
strategies and moments run in rounds of permuted order, newly built three times; the time of a configuration is the
median of the builds' medians.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks.common.report import write_json
from benchmarks.search.live_runs import LARGEST_FILE, LiveRun, empty_cache
from seqtune.data.record import Status
from seqtune.errors import FormatError
from seqtune.kernels.files import read_bounded
from seqtune.kernels.task import Task
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import DEFAULTS

BUILDS = 3  # the place of code and buffers in memory changes the time by some per cent
ROUNDS = 11  # of each build; odd, so that the median is a sample


def judged(run: LiveRun, numbers: Iterable[int]) -> dict[int, float]:
    """The seconds of configurations of the run's task, by number; infinite for one that failed."""
    task = Task.of(run.problem, run.device)
    order = sorted(set(numbers))
    times: list[list[float]] = [[] for _ in order]
    with empty_cache(), Runner(run.device) as runner:
        for build in range(BUILDS):
            compared = runner.compare(run.problem, [task[number] for number in order], ROUNDS,
                                      replace(DEFAULTS, order_seed=build))
            for index, measurement in enumerate(compared):
                correct = measurement.status is Status.CORRECT and measurement.samples
                times[index].append(median(measurement.samples) if correct else math.inf)
    return {number: median(seconds) for number, seconds in zip(order, times, strict=True)}


def stored_contest(path: Path, numbers: Sequence[int]) -> dict[int, float] | None:
    """The stored seconds of a contest, or None if it does not hold all of these numbers. Raises FormatError."""
    if not path.is_file():
        return None
    try:
        content = json.loads(read_bounded(path, LARGEST_FILE))
        seconds = {int(number): math.inf if value is None else float(value) for number, value in content.items()}
    except (ValueError, TypeError, AttributeError):
        raise FormatError(f"{path} does not hold the times of a contest; remove it") from None
    return seconds if set(numbers) <= seconds.keys() else None


def store_contest(path: Path, seconds: dict[int, float]) -> None:
    """Store the seconds of a contest."""
    write_json(path, {str(number): value if math.isfinite(value) else None for number, value in seconds.items()})
