"""Measured tasks: the problems of a data set as tasks, with a time for each configuration. All training begins here.

A task's configurations are numbered over all of its search spaces, in table order. Rows are of two kinds. The runs
COMPARED measured configurations together, interleaved; each repetition is a build. All other runs timed them alone.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from seqtune.errors import FormatError, KernelError, SeqtuneWarning
from seqtune.kernels import registry
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.task import Floats, MeasuredTask, Task

from .builds import levelled
from .dataset import configuration
from .record import COMPARED, Status

DISTURBED = 1.3  # factor on the least time of a configuration timed alone; slower repetitions met another process
CLEARLY_FASTER = 0.95  # times the best time; two measurements of one configuration differ by less

NEEDED = ("device", "problem", "kernel", "configuration", "status", "seconds", "run", "held_out")


class Data(Protocol):
    """A data set for training: rows with the columns NEEDED, and the devices that they name, by that name."""

    @property
    def frame(self) -> pd.DataFrame: ...

    @property
    def devices(self) -> Mapping[str, Device]: ...


def measured_tasks(data: Data, held_out: bool, declared: Sequence[Kernel] = ()) -> list[MeasuredTask]:
    """The tasks of the training part, or of the held-out part, sorted by problem. Raises FormatError.

    A task is left out if no configuration of it ran. If `declared` kernels solve a problem, its task has only those.

    A row is left out if its configuration is no longer in its space, if its kernel has another version today or no
    longer exists, or if its toolchain differs from the device's (if the device's facts name one). A warning is given
    if a configuration that is no longer in its space was clearly faster than all others: a constraint may be too
    strict.

    Of a configuration that was timed alone several times, the median counts, after disturbed times are left out. The
    least would not do: only promising configurations are timed again, and the least of several times is lower than a
    single one, so that whatever chose them would seem better than it is.

    Where configurations were compared, the median over their levelled builds counts instead. These times are brought to
    the scale of the times alone, because the machine may have been slower in that minute, and because the statistics of
    the two differ. The factor is the median ratio over the better half of the compared configurations, by their
    compared times. Over all of them it would be too low: many are compared because they were lucky when timed alone.
    """
    frame = data.frame
    missing = [name for name in NEEDED if name not in frame.columns]
    if missing:
        raise FormatError(f"the data set has no column {missing[0]!r}; it needs {', '.join(NEEDED)}")
    tasks, lost = [], list[str]()
    part = frame[frame["held_out"].astype(bool) == held_out]
    for (key, device_name), rows in part.groupby(["problem", "device"], sort=True, observed=True):
        name = str(device_name)
        if name not in data.devices:
            raise FormatError(f"the data set has no facts of its device {name!r:.60}")
        measured = _measured_task(parse_problem(str(key)), data.devices[name], rows, declared, lost)
        if measured is not None:
            tasks.append(measured)
    if lost:
        warnings.warn(f"{len(lost)} measured problems were solved faster by a configuration that their search spaces "
                      f"no longer hold, among them {lost[0]}; look at the constraints of its kernel",
                      SeqtuneWarning, stacklevel=2)
    return tasks


def _measured_task(problem: Problem, device: Device, rows: pd.DataFrame, declared: Sequence[Kernel],
                   lost: list[str]) -> MeasuredTask | None:
    """The task of one problem's rows, None if no configuration ran.

    If a faster configuration is no longer in its space, its description is added to `lost`.
    """
    try:
        task = Task.of(problem, device, [kernel for kernel in declared if kernel.why_not(problem, device) is None])
    except KernelError:
        return None
    if device.toolchain and "toolchain" in rows:
        rows = rows[rows["toolchain"] == device.toolchain]
    rows = rows[rows["status"] != Status.CONSTRAINTS.value]  # refused by the space at that time, not measured
    times = np.where(rows["status"].to_numpy(str) == "correct", rows["seconds"].to_numpy(float), np.inf)
    times = np.where(times > 0, times, np.inf)  # NaN too
    names, texts = rows["kernel"].to_numpy(str), rows["configuration"].to_numpy(str)
    versions = rows["kernel_version"].to_numpy() if "kernel_version" in rows else None
    numbers = np.full(len(rows), -1)  # -1: not in today's spaces
    for kernel in task.kernels:
        chosen = names == kernel.name
        if versions is not None:
            chosen &= versions == kernel.version
        distinct, which = np.unique(texts[chosen], return_inverse=True)
        settings = [dict(configuration(kernel.name, text).settings) for text in distinct]
        numbers[chosen] = task.numbers(kernel.name, settings)[which]
    held = numbers >= 0
    together = held & np.isin(rows["run"].to_numpy(str), COMPARED)
    alone = _typical(numbers[held & ~together], times[held & ~together], len(task))
    builds = _builds(numbers[together], times[together], len(task))
    best = float(np.fmin.reduce(times[held], initial=math.inf))
    for index in np.flatnonzero(~held & (times < CLEARLY_FASTER * best)):
        if best < math.inf and (versions is None or versions[index] == _version(names[index], task, declared)):
            lost.append(f"{problem.brief()} on {device.name} ({names[index]} {texts[index]}: {times[index]:.3g} s, "
                        f"now at best {best:.3g} s)")
            break
    seconds = alone if builds is None else _merged(task, alone, builds)
    return MeasuredTask(task, seconds, builds) if np.isfinite(seconds).any() else None


def _typical(numbers: NDArray[np.int64], times: Floats, count: int) -> Floats:
    """The median time of each of `count` configurations, after its disturbed times are left out; NaN without times."""
    typical = np.full(count, np.nan)
    if len(numbers):
        order = np.lexsort((times, numbers))
        times = times[order]
        present, starts, repeats = np.unique(numbers[order], return_index=True, return_counts=True)
        undisturbed = times <= DISTURBED * np.repeat(times[starts], repeats)
        last = np.add.reduceat(undisturbed, starts) - 1
        typical[present] = (times[starts + last // 2] + times[starts + (last + 1) // 2]) / 2
    return typical


def _builds(numbers: NDArray[np.int64], times: Floats, count: int) -> Floats | None:
    """The compared times of `count` configurations, (build, configuration), NaN where there is none; None if no build.

    The rows of a configuration are its builds, in their order.
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
                capped = np.maximum(alone[part], np.nanmin(compared))  # a lucky time does not beat the best compared
                seconds[part] = np.where(np.isnan(compared[part]), capped, compared[part])
    return seconds


def _version(name: str, task: Task, declared: Sequence[Kernel]) -> int | None:
    """Today's version of a kernel family, None if there is no such family."""
    versions = {kernel.name: kernel.version for kernel in (*declared, *task.kernels)}
    if name in versions:
        return versions[name]
    try:
        return registry.kernel(name).version
    except KernelError:
        return None


def counted(times: ArrayLike, default: float, measured: ArrayLike) -> Floats:
    """The times that a user gets: a configuration that fails (infinite) is replaced by the default configuration.

    If the default (its seconds) fails as well, the slowest of the `measured` times that ran counts.
    """
    if not math.isfinite(default):
        ran = np.asarray(measured, float)
        default = float(ran[np.isfinite(ran)].max())
    seconds = np.asarray(times, float)
    return np.where(np.isfinite(seconds), seconds, default)


def split(tasks: Sequence[MeasuredTask], share: float, seed: int) -> tuple[list[MeasuredTask], list[MeasuredTask]]:
    """Split tasks into (fitting, validation); `share` of the problems, with all their devices, are for validation."""
    keys = sorted({measured.problem.key for measured in tasks})
    count = min(max(1, round(share * len(keys))), len(keys) - 1) if share > 0 and len(keys) > 1 else 0
    chosen = {keys[index] for index in np.random.default_rng(seed).permutation(len(keys))[:count]}
    return ([measured for measured in tasks if measured.problem.key not in chosen],
            [measured for measured in tasks if measured.problem.key in chosen])
