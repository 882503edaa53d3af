"""Repeated times: which time of a configuration counts if it was measured several times.

Measurements are of two kinds. The runs COMPARED measured configurations together, interleaved; each repetition is a
build. All other runs timed them alone.

Of a configuration that was timed alone several times, the median counts, without disturbed times. The minimum would be
biased: only promising configurations are timed again, and the minimum of several times is lower than a single time, so
the method that chose them would seem better than it is.

Where configurations were compared, the median over their levelled builds counts instead. These times are scaled to the
times of single runs, because the machine may have been slower in that minute, and because the statistics of the two
differ. The factor is the median ratio over the better half of the compared configurations, by their compared times.
The ratio over all of them would be too low: many are compared because of a lucky time alone.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, Task

from .builds import levelled

DISTURBED = 1.3  # factor on a configuration's shortest time alone; another process disturbed slower repetitions


def times_by_number(task: Task, numbers: Numbers, times: Floats,
                    compared: NDArray[np.bool_]) -> tuple[Floats, Floats | None]:
    """The seconds and the builds of a task's configurations, as in MeasuredTask.

    There is an entry for each measurement, in the order in which they were made: the number of the configuration, the
    time (seconds, infinite for a failure), and whether the run compared configurations.
    """
    alone = _typical(numbers[~compared], times[~compared], len(task))
    builds = _builds(numbers[compared], times[compared], len(task))
    return alone if builds is None else _merged(task, alone, builds), builds


def _typical(numbers: Numbers, times: Floats, count: int) -> Floats:
    """The median time of each of `count` configurations, without disturbed times; NaN if it has no times."""
    typical = np.full(count, np.nan)
    if len(numbers):
        order = np.lexsort((times, numbers))
        times = times[order]
        present, starts, repeats = np.unique(numbers[order], return_index=True, return_counts=True)
        undisturbed = times <= DISTURBED * np.repeat(times[starts], repeats)
        last = np.add.reduceat(undisturbed, starts) - 1
        typical[present] = (times[starts + last // 2] + times[starts + (last + 1) // 2]) / 2
    return typical


def _builds(numbers: Numbers, times: Floats, count: int) -> Floats | None:
    """The compared times of `count` configurations, (build, configuration), NaN where there is none; None if no build.

    The times of a configuration are its builds, in their order.
    """
    if not len(numbers):
        return None
    order = np.argsort(numbers, kind="stable")
    _, starts, repeats = np.unique(numbers[order], return_index=True, return_counts=True)
    build = np.arange(len(order)) - np.repeat(starts, repeats)
    builds = np.full((int(repeats.max()), count), np.nan)
    builds[build, numbers[order]] = times[order]
    return builds


def _merged(task: Task, alone: Floats, builds: Floats) -> Floats:
    """The time of each configuration: that of its builds on the scale of `alone`, or else that of its run alone."""
    compared = np.full(len(task), np.nan)
    known = ~np.isnan(builds).all(axis=0)
    compared[known] = np.nanmedian(levelled(builds)[:, known], axis=0)
    both = np.flatnonzero(np.isfinite(alone) & np.isfinite(compared))
    if len(both):
        better = both[np.argsort(compared[both], kind="stable")[:math.ceil(len(both) / 2)]]
        compared *= np.median(alone[better] / compared[better])
    seconds = alone.copy()
    if np.isfinite(compared).any():
        for _, part in task.parts():
            if not np.isnan(compared[part]).all():  # a kernel that was never compared keeps its times alone
                capped = np.maximum(alone[part], np.nanmin(compared))  # not below the best compared time
                seconds[part] = np.where(np.isnan(compared[part]), capped, compared[part])
    return seconds
