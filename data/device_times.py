"""DeviceTimes: what a journal holds of one device on this machine, as measured tasks without pandas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from seqtune.errors import KernelError
from seqtune.kernels.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Floats, MeasuredTask, Task

from .journal import REPEATED, Journal
from .record import VERIFIED, Record, Status

NEWEST = 4000  # records that are read: a few hundredths of a millisecond each
_PASSING = (Status.TIMEOUT, Status.CRASH, Status.CONSTRAINTS)  # say nothing certain about a configuration's time


def device_times(journal: Journal, device: Device, most: int, verified: bool = True) -> list[MeasuredTask]:
    """The newest measurements of a device, by problem: at most `most` tasks, the newest first.

    They were made on this machine, with today's kernels and toolchain. Without `verified`, verifications are left out.
    """
    by_problem: dict[Problem, list[Record]] = {}
    for record in journal.newest(device.key, NEWEST):
        if verified or record.run != VERIFIED:
            by_problem.setdefault(record.problem, []).append(record)
    return list(_tasks(by_problem, device, most))


def _tasks(by_problem: dict[Problem, list[Record]], device: Device, most: int) -> Iterator[MeasuredTask]:
    for problem, records in by_problem.items():
        if most == 0:
            return
        try:
            task = Task.of(problem, device)
        except KernelError:
            continue
        seconds = times_of(task, records)
        if np.isfinite(seconds).any():
            most -= 1
            yield MeasuredTask(task, seconds)


def own_times(journal: Journal, task: Task, verified: bool = True) -> Floats | None:
    """The seconds of a task's configurations, as in MeasuredTask; None if none of them was measured."""
    records = journal.records(task.problem, task.device.key)
    seconds = times_of(task, (record for record in records if verified or record.run != VERIFIED))
    return None if np.isnan(seconds).all() else seconds


def times_of(task: Task, records: Iterable[Record]) -> Floats:
    """The seconds of a task's configurations by number: infinite for a failure, NaN if not measured.

    Records of other machines, kernel versions or toolchains do not count, and neither do crashes, timeouts and what
    was measured under load. The shortest time counts; if a configuration was measured again, together with
    others, the shortest of these times, multiplied by the median ratio of trial to repetition.
    """
    versions = {kernel.name: kernel.version for kernel in task.kernels}
    trials, repeats = np.full(len(task), np.nan), np.full(len(task), np.nan)
    for record in records:
        if (record.loaded or record.measurement.status in _PASSING or not record.may_be_of(task.device)
                or not record.is_todays(task.device.toolchain, versions)):
            continue
        number = task.find(record.configuration)
        if number is not None:
            times = repeats if record.run in REPEATED else trials
            times[number] = np.fmin(times[number], record.measurement.seconds)
    both = np.isfinite(trials) & np.isfinite(repeats)
    if both.any():
        repeats *= np.median(trials[both] / repeats[both])
    return np.where(np.isnan(repeats), trials, repeats)
