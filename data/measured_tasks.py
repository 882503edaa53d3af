"""Measured tasks: the problems of a data set as tasks, with a time for each configuration. Training starts from them.

A task's configurations are numbered over all of its search spaces, in table order.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from seqtune.errors import FormatError, KernelError, SeqtuneWarning
from seqtune.kernels import registry
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.task import Floats, KnownTask, MeasuredTask, Task

from .dataset import configuration
from .record import COMPARED, Status
from .repeated_times import times_by_number

CLEARLY_FASTER = 0.95  # times the best time; repeated measurements of one configuration differ by less

Known = TypeVar("Known", bound=KnownTask)
NEEDED = ("device", "problem", "kernel", "configuration", "status", "seconds", "run", "held_out")


class Data(Protocol):
    """A data set for training: rows with the columns NEEDED, and the devices that they name, by that name."""

    @property
    def frame(self) -> pd.DataFrame: ...

    @property
    def devices(self) -> Mapping[str, Device]: ...

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """The kernel families that the data set declares itself, by name, such as those of imported caches."""


def measured_tasks(data: Data, held_out: bool, warn: bool = True,
                   before_each: Callable[[], object] = lambda: None) -> list[MeasuredTask]:
    """The tasks of the training part, or of the held-out part, sorted by problem. Raises FormatError.

    A task is left out if none of its configurations ran. If kernels that the data set declares solve a problem, its
    task has only these.

    A row is left out if its configuration is no longer in its space, if its kernel has another version today or no
    longer exists, or if its toolchain differs from the device's (if the device's facts name one). A warning is given
    if a configuration that is no longer in its space was clearly faster than all others: a constraint may be too
    strict; without `warn` there is none, as for shipped records, whose constraints are not the user's.

    `before_each` is called before each task is made; what it raises ends the work.
    `repeated_times` chooses among several times of a configuration.
    """
    frame = data.frame
    missing = [name for name in NEEDED if name not in frame.columns]
    if missing:
        raise FormatError(f"the data set has no column {missing[0]!r}; it needs {', '.join(NEEDED)}")
    tasks, lost, declared = [], list[str](), tuple(data.kernels.values())
    part = frame[frame["held_out"].astype(bool) == held_out]
    for (key, device_name), rows in part.groupby(["problem", "device"], sort=True, observed=True):
        before_each()
        name = str(device_name)
        if name not in data.devices:
            raise FormatError(f"the data set has no facts of its device {name!r:.60}")
        measured = _measured_task(parse_problem(str(key)), data.devices[name], rows, declared, lost)
        if measured is not None:
            tasks.append(measured)
    if lost and warn:
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
    rows = rows[rows["status"] != Status.CONSTRAINTS.value]  # refused by the space at the time of measuring
    times = np.where(rows["status"].to_numpy(str) == "correct", rows["seconds"].to_numpy(float), np.inf)
    times = np.where(times > 0, times, np.inf)  # NaN as well
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
    valid = numbers >= 0
    compared = np.isin(rows["run"].to_numpy(str), COMPARED)
    best = float(np.fmin.reduce(times[valid], initial=math.inf))
    for index in np.flatnonzero(~valid & (times < CLEARLY_FASTER * best)):
        if best < math.inf and (versions is None or versions[index] == _version(names[index], task, declared)):
            lost.append(f"{problem.brief()} on {device.name} ({names[index]} {texts[index]}: {times[index]:.3g} s, "
                        f"now at best {best:.3g} s)")
            break
    seconds, builds = times_by_number(task, numbers[valid], times[valid], compared[valid])
    return MeasuredTask(task, seconds, builds) if np.isfinite(seconds).any() else None


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


def split(tasks: Sequence[Known], share: float, seed: int) -> tuple[list[Known], list[Known]]:
    """Split tasks into (fitting, validation); `share` of the problems, with all their devices, are for validation."""
    keys = sorted({measured.problem.key for measured in tasks})
    count = min(max(1, round(share * len(keys))), len(keys) - 1) if share > 0 and len(keys) > 1 else 0
    chosen = {keys[index] for index in np.random.default_rng(seed).permutation(len(keys))[:count]}
    return ([measured for measured in tasks if measured.problem.key not in chosen],
            [measured for measured in tasks if measured.problem.key in chosen])
