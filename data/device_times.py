"""Device times: a journal's measurements of one device on this machine, as measured tasks, without pandas."""

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
_PASSING = (Status.TIMEOUT, Status.CRASH, Status.CONSTRAINTS)  # may have other causes than the configuration


def device_times(journal: Journal, device: Device, count: int, verified: bool = True) -> list[MeasuredTask]:
    """The newest measurements of a device, by problem: at most `count` tasks, the newest first.

    Only measurements of this machine with today's kernels and toolchain count, verifications only with `verified`.
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

    `records` are in the order of measuring. Records of other machines, kernel versions or toolchains do not count, nor
    crashes, timeouts, times under load and times that rest on one build. `repeated_times` chooses among several times
    of a configuration.
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
