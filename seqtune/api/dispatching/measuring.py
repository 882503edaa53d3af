"""Measuring: cells of the matrix and fresh shapes, interleaved, every record in the journal at once.

The first looks of a comparison are stored as trials, and its builds as records of one session. The same call again
takes what the journal has, so an interruption loses the builds of one problem at most.
"""

from __future__ import annotations

import math
import platform
import time
import uuid
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from seqtune.data.device_times import times_of
from seqtune.data.journal.journal import Journal
from seqtune.data.record import COMPARED, Measurement, Record, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Floats, Task
from seqtune.tuner.measuring.compared_times import compare_all
from seqtune.tuner.measuring.deadline import Deadline, OutOfTime
from seqtune.tuner.measuring.runner import Measurer, Runner
from seqtune.tuner.measuring.timing import Options
from seqtune.tuner.run.local_run import tune
from seqtune.tuner.run.plan import Budget, Finals, TuningOptions

from ..collecting.stages import AGAIN, BUILDS, CONTEST

LOOK = "dispatch"  # Record.run of a first look, beside AGAIN of a second one and CONTEST of rounds
OWN = (LOOK, CONTEST, AGAIN)
TRIALS = 40  # of the search of a shape


@dataclass
class Measuring:
    """The device and the journal of a dispatch, and the end of its time."""

    device: Device
    journal: Journal
    measurer: Measurer
    deadline: Deadline
    renew: Callable[[], None] = lambda: None  # called between two builds of a comparison: the next has a new worker
    measured: int = 0  # pairs of problem and configuration that this call measured

    def compare(self, task: Task, configurations: Sequence[Configuration]) -> None:
        """Compare configurations of a task in rounds, unless each fails or was compared. Raises OutOfTime."""
        if not self._are_compared(task, configurations):
            compare_all(_Recording(self, task), task.problem, configurations, BUILDS, self.renew)

    def _are_compared(self, task: Task, configurations: Sequence[Configuration]) -> bool:
        """Whether the journal has a failure or a comparison of each of these configurations."""
        versions = {kernel.name: kernel.version for kernel in task.kernels}
        done = {each for each, look in self.looks(task).items() if look.status is not Status.CORRECT}
        done.update(record.configuration for record in self.journal.records(task.problem, task.device.key)
                    if record.run in (CONTEST, AGAIN) and record.is_todays(task.device.toolchain, versions)
                    and record.may_be_of(task.device))
        return done.issuperset(configurations)

    def search(self, task: Task, left: float, options: TuningOptions) -> int:
        """Search a task for up to TRIALS trials and `left` seconds, without finals; return the number of its trials.

        Those of the journal are among them. Raises OutOfTime.
        """
        result = tune(task, self.journal, self.measurer, Budget(TRIALS, None if math.isinf(left) else left),
                      replace(options, finals=Finals(count=0)))
        self.measured += result.done - result.resumed
        return result.done

    def looks(self, task: Task) -> dict[Configuration, Measurement]:
        """The trials and looks of a task that the journal has."""
        return self.journal.trials(task.problem, task.device, task.kernels)

    def seconds(self, task: Task, own: bool = True) -> Floats:
        """The times of a task in the journal, by number: seconds, infinite for a failure, NaN if not measured.

        Without `own`, the cells that dispatches compared are left out, so that a repeated call has the same candidates.
        """
        return journal_seconds(self.journal, task, () if own else OWN)

    def store(self, task: Task, configuration: Configuration, measurement: Measurement, run: str,
              session: str = "") -> None:
        """Store a record."""
        version = next(kernel.version for kernel in task.kernels if kernel.name == configuration.kernel)
        self.journal.add(Record(task.problem, self.device.key, version, configuration, self.device.toolchain,
                                measurement, time.time(), run, platform.node(), self.device.fingerprint, session))
        self.measured += run == LOOK

    def within(self, options: Options) -> Options:
        """The options with the time that is left. Raises OutOfTime if none is."""
        if self.deadline.is_over:
            raise OutOfTime("the time of the dispatch is over")
        return replace(options, budget=self.deadline.hard.left)


@contextmanager
def measuring_on(device: Device, journal: str | Path | None, deadline: Deadline) -> Iterator[Measuring]:
    """Open a journal (None: the user's), and a worker for a device of this machine."""
    with Journal(journal) as records, Runner(device) as runner:
        records.add_device(device)
        runner.start()
        yield Measuring(device, records, runner, deadline, runner.close)


class _Recording:
    """A measurer of one task that takes looks from the journal, and stores each measurement at once."""

    def __init__(self, measuring: Measuring, task: Task) -> None:
        self.device, self._measuring, self._task = measuring.device, measuring, task
        self._known = measuring.looks(task)
        self._session = uuid.uuid4().hex
        self._run = LOOK

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        """Yield first looks, those of the journal first; then second ones. Raises OutOfTime at the deadline."""
        run, known = self._run, self._known
        self._run, self._known = AGAIN, {}
        missing = [each for each in configurations if each not in known]
        yield from ((each, known[each]) for each in configurations if each in known)
        measured = 0
        for configuration, measurement in self._measuring.measurer.measure(
                problem, missing, self._measuring.within(options), best):
            self._measuring.store(self._task, configuration, measurement, run)
            measured += 1
            yield configuration, measurement
        if measured < len(missing):
            raise OutOfTime("the time of the dispatch is over")

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        """Measure in rounds. Raises OutOfTime."""
        measured = self._measuring.measurer.compare(problem, configurations, rounds, self._measuring.within(options))
        for configuration, measurement in zip(configurations, measured, strict=True):
            self._measuring.store(self._task, configuration, measurement, CONTEST, self._session)
        return measured


def journal_seconds(journal: Journal, task: Task, without: Collection[str] = ()) -> Floats:
    """The seconds of a task's configurations by number: infinite for a failure, NaN if it was not measured.

    Each session that compared configurations is brought to one level with the earlier ones, since the machine may have
    been slower in one of them; so are, at last, the times of configurations measured alone. The factor is the median
    over the better half of the configurations that both have, as in `repeated_times`. Runs of the names `without` do
    not count.
    """
    sessions: dict[str, list[Record]] = {}
    for record in journal.records(task.problem, task.device.key):
        if record.run not in without:
            sessions.setdefault(record.session if record.run in COMPARED else "alone", []).append(record)
    alone = sessions.pop("alone", [])
    seconds = np.full(len(task), np.nan)
    for session in (*sessions.values(), alone):
        others = times_of(task, session)
        both = np.flatnonzero(np.isfinite(seconds) & np.isfinite(others))
        better = both[np.argsort(seconds[both], kind="stable")][:(len(both) + 1) // 2]
        factor = float(np.median(seconds[better] / others[better])) if len(better) else 1.0
        seconds = np.where(np.isnan(seconds), factor * others, seconds)
    for record in journal.trial_records(task.problem, task.device, task.kernels):
        number = task.find(record.configuration)
        if record.measurement.status is not Status.CORRECT and record.run not in without and number is not None \
                and np.isnan(seconds[number]):
            seconds[number] = np.inf  # crashes and timeouts, which `times_of` leaves out
    return seconds
