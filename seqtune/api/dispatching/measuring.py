"""Measuring: cells of the matrix and fresh shapes, interleaved, every record in the journal at once.

A problem's comparison has the looks of `compare_all` as trials, and its builds as one session. The same call again
takes what the journal has, so an interruption loses the comparison of one problem at most, and its looks are kept.
"""

from __future__ import annotations

import math
import platform
import time
import uuid
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from seqtune.data.device_times import times_of
from seqtune.data.journal.journal import Journal
from seqtune.data.record import COMPARED, Measurement, Record, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Floats, Task
from seqtune.tuner.measuring.compared_times import FAR, CompareOptions, compare_all
from seqtune.tuner.measuring.comparison import typical
from seqtune.tuner.measuring.deadline import Deadline, OutOfTime
from seqtune.tuner.measuring.runner import Measurer
from seqtune.tuner.measuring.timing import Options
from seqtune.tuner.run.local_run import tune
from seqtune.tuner.run.plan import Budget, Finals, TuningOptions

LOOK, CONTEST, AGAIN = "dispatch", "contest", "again"  # Record.run of a look, of rounds, and of a second look
OWN = (LOOK, CONTEST, AGAIN)
TRIALS = 40  # of the search of a shape
ROUNDS = CompareOptions(builds=2, rounds=9, seconds=4.0)  # as in the contests of collected data


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
        """Compare configurations of a task in rounds. Raises OutOfTime at the deadline."""
        compare_all(_Recording(self, task), task.problem, configurations, ROUNDS, self.renew)

    def search(self, task: Task, left: float, options: TuningOptions) -> int:
        """Search a task for up to TRIALS trials and `left` seconds, without finals; return the number of its trials.

        Those of the journal are among them. Raises OutOfTime.
        """
        result = tune(task, self.journal, self.measurer, Budget(TRIALS, None if math.isinf(left) else left),
                      replace(options, finals=Finals(count=0)))
        self.measured += result.done - result.resumed
        return result.done

    def are_compared(self, task: Task, configurations: Sequence[Configuration]) -> bool:
        """Whether a session in the journal compared these configurations with each other, or they fail."""
        versions = {kernel.name: kernel.version for kernel in task.kernels}
        sessions: dict[str, set[Configuration]] = {}
        for record in self.journal.records(task.problem, task.device.key, run=CONTEST):
            if record.is_todays(task.device.toolchain, versions) and record.may_be_of(task.device):
                sessions.setdefault(record.session, set()).add(record.configuration)
        looks = self.journal.trials(task.problem, task.device, task.kernels)
        times = {each: looks[each].seconds if each in looks else 0.0 for each in configurations}
        limit = FAR * min(times.values(), default=0.0)  # `compare_all` takes no slower ones into the rounds
        near = {each for each, seconds in times.items() if math.isfinite(seconds) and seconds <= limit}
        return any(near <= session for session in sessions.values())

    def seconds(self, task: Task, own: bool = True) -> Floats:
        """What the journal has of a task, by number: seconds, infinite for a failure, NaN if it was not measured.

        Without `own`, what dispatches measured of cells does not count, so that candidates stay the same when a call is
        repeated.
        """
        return journal_seconds(self.journal, task, () if own else OWN)

    def store(self, task: Task, configuration: Configuration, measurement: Measurement, run: str,
              session: str = "") -> None:
        """Store a record."""
        version = next(kernel.version for kernel in task.kernels if kernel.name == configuration.kernel)
        self.journal.add(Record(task.problem, self.device.key, version, configuration, self.device.toolchain,
                                measurement, time.time(), run, platform.node(), self.device.fingerprint, session))
        self.measured += run == LOOK


class _Recording:
    """A measurer of one task that takes looks from the journal, and stores each measurement at once."""

    def __init__(self, measuring: Measuring, task: Task) -> None:
        self.device, self._measuring, self._task = measuring.device, measuring, task
        self._known = dict(measuring.journal.trials(task.problem, task.device, task.kernels))
        self._looked: set[Configuration] = set()
        self._session = uuid.uuid4().hex

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        """Yield looks, those of the journal first. Raises OutOfTime where the time does not reach for all."""
        again = self._looked.issuperset(configurations)
        known = {} if again else self._known
        yield from ((each, known[each]) for each in configurations if each in known)
        missing = [each for each in configurations if each not in known]
        self._looked.update(configurations)
        measured = 0
        for configuration, measurement in self._measuring.measurer.measure(
                problem, missing, self._within(options), best):
            self._measuring.store(self._task, configuration, measurement, AGAIN if again else LOOK)
            measured += 1
            yield configuration, measurement
        if measured < len(missing):
            raise OutOfTime("the time of the dispatch is over")

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        """Measure in rounds. Raises OutOfTime."""
        measured = self._measuring.measurer.compare(problem, configurations, rounds, self._within(options))
        for configuration, measurement in zip(configurations, measured, strict=True):
            self._measuring.store(self._task, configuration, measurement, CONTEST, self._session)
        return measured

    def _within(self, options: Options) -> Options:
        """The options with the time that is left. Raises OutOfTime if none is."""
        if self._measuring.deadline.is_over:
            raise OutOfTime("the time of the dispatch is over")
        return replace(options, budget=self._measuring.deadline.hard.left)


def journal_seconds(journal: Journal, task: Task, without: Collection[str] = ()) -> Floats:
    """The seconds of a task's configurations by number: infinite for a failure, NaN if it was not measured.

    Sessions that compared configurations are brought to one level by the configurations that they share with earlier
    ones, since the machine may have been slower in one of them; so are the times of configurations measured alone.
    Runs of the names `without` do not count.
    """
    records = [record for record in journal.records(task.problem, task.device.key) if record.run not in without]
    sessions: dict[str, list[Record]] = {}
    for record in records:
        if record.run in COMPARED:
            sessions.setdefault(record.session, []).append(record)
    seconds = np.full(len(task), np.nan)
    for session in sessions.values():
        today = times_of(task, session)  # NaN for what another version, toolchain or machine measured
        seconds = _joined(seconds, np.where(np.isfinite(today), _session_seconds(task, session), today))
    seconds = _joined(seconds, times_of(task, (record for record in records if record.run not in COMPARED)))
    failed = [record.configuration for record in journal.trial_records(task.problem, task.device, task.kernels)
              if record.measurement.status is not Status.CORRECT and record.run not in without]
    numbers = np.array([number for each in failed if (number := task.find(each)) is not None], np.int64)
    seconds[numbers[np.isnan(seconds[numbers])]] = np.inf  # crashes and timeouts, which `times_of` leaves out
    return seconds


def _session_seconds(task: Task, session: Iterable[Record]) -> Floats:
    """The typical seconds of a session by number, of its builds or, of a single build, of its rounds."""
    builds: dict[int, list[Measurement]] = {}
    for record in session:
        number = task.find(record.configuration)
        if number is not None:
            builds.setdefault(number, []).append(record.measurement)
    single = all(len(built) == 1 for built in builds.values())
    times = typical({number: built[0].samples if single else [measurement.seconds for measurement in built]
                     for number, built in builds.items()})
    seconds = np.full(len(task), np.nan)
    seconds[list(times)] = list(times.values())
    return seconds


def _joined(seconds: Floats, others: Floats) -> Floats:
    """The seconds, and those of `others` that are not among them, scaled by what both have.

    The factor is that of the better half of the shared ones, by `seconds`, as in `repeated_times`.
    """
    both = np.flatnonzero(np.isfinite(seconds) & np.isfinite(others))
    better = both[np.argsort(seconds[both], kind="stable")][:(len(both) + 1) // 2]
    factor = float(np.median(seconds[better] / others[better])) if len(better) else 1.0
    return np.where(np.isnan(seconds), factor * others, seconds)
