"""Device times: what a journal holds of one device on this machine, as measured tasks, without pandas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from seqtune.errors import KernelError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Floats, MeasuredTask, Task

from .journal.journal import Journal
from .record import COMPARED, VERIFIED, Record, Status
from .repeated_times import times_by_number

NEWEST = 4000  # records that are read: a few hundredths of a millisecond each
_PASSING = (Status.TIMEOUT, Status.CRASH, Status.CONSTRAINTS)  # say nothing certain about a configuration's time


def device_times(journal: Journal, device: Device, count: int, verified: bool = True) -> list[MeasuredTask]:
    """The newest measurements of a device, by problem: at most `count` tasks, the newest first.

    They were made on this machine, with today's kernels and toolchain. Without `verified`, verifications are left out.
    """
    by_problem: dict[Problem, list[Record]] = {}
    for record in journal.newest(device.key, NEWEST):
        if verified or record.run != VERIFIED:
            by_problem.setdefault(record.problem, []).append(record)
    return list(islice(_tasks(by_problem, device), count))


def _tasks(by_problem: dict[Problem, list[Record]], device: Device) -> Iterator[MeasuredTask]:
    """The tasks of problems with their records, the newest first."""
    for problem, records in by_problem.items():
        try:
            task = Task.of(problem, device)
        except KernelError:
            continue
        seconds = times_of(task, reversed(records))
        if np.isfinite(seconds).any():
            yield MeasuredTask(task, seconds)


def own_times(journal: Journal, task: Task, verified: bool = True) -> Floats | None:
    """The seconds of a task's configurations, as in MeasuredTask; None if none of them was measured."""
    records = journal.records(task.problem, task.device.key)
    seconds = times_of(task, (record for record in records if verified or record.run != VERIFIED))
    return None if np.isnan(seconds).all() else seconds


def times_of(task: Task, records: Iterable[Record]) -> Floats:
    """The seconds of a task's configurations by number: infinite for a failure, NaN if not measured.

    `records` are in the order of measuring. Those of other machines, kernel versions or toolchains do not count, and
    neither do crashes, timeouts, what was measured under load and what rests on one build. Of a configuration with
    several times, `repeated_times` says which counts.
    """
    versions = {kernel.name: kernel.version for kernel in task.kernels}
    numbers, times, compared = list[int](), list[float](), list[bool]()
    for record in records:
        if (record.loaded or record.rests_on_one_build or record.measurement.status in _PASSING
                or not record.may_be_of(task.device) or not record.is_todays(task.device.toolchain, versions)):
            continue
        number = task.find(record.configuration)
        if number is not None:
            numbers.append(number)
            times.append(record.measurement.seconds)
            compared.append(record.run in COMPARED)
    return times_by_number(task, np.array(numbers, np.int64), np.array(times, float), np.array(compared, bool))[0]
