"""Plan: what a run searches, with which budget, how, and what it does about failures. It does not say what measures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from seqtune.data.record import Measurement
from seqtune.errors import KernelError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.say import silent
from seqtune.kernels.task import Task

from ..measuring.timing import DEFAULTS, Options
from ..stand_ins import default_and_stand_ins

BATCH = 16  # proposals per `ask`: enough to hide the latency of the worker, few enough to learn in between


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a run. Trials include those in the journal, so a resumed run ends where it would have ended."""

    trials: int | None = None  # of each problem
    seconds: float | None = None  # for each problem in this run


@dataclass(frozen=True, slots=True)
class Finals:
    """The number of configurations that are measured again at the end, and the number of rounds."""

    count: int = 5  # best configurations, in addition to the safe default; 0: no finals
    rounds: int = 16  # the least of 16 interleaved samples is within 3 % of the true time even for cache-bound kernels
    noisy: float = 0.1  # spread of the winner's samples from which the finals are measured again, with `more_rounds`
    more_rounds: int = 64  # PoCL's launches of 80 us vary by 20 %, and the least of 16 by 7 %


@dataclass(frozen=True, slots=True)
class TuningProgress:
    """The state of a run after a trial. On this machine the trial is in the journal by then."""

    problem: Problem
    done: int  # trials so far
    resumed: int  # trials of these that were in the journal
    total: int  # maximum number of trials by budget and space
    configuration: Configuration
    measurement: Measurement
    best: float  # least time so far, in seconds


@dataclass(frozen=True, slots=True)
class TuningOptions:
    """The options of searching, measuring and reporting."""

    strategy: str = "portfolio"  # name in the table of strategies; trials are recorded under this name
    seed: int = 0  # of the strategy's random numbers
    batch: int = BATCH  # proposals per `ask`
    measuring: Options = DEFAULTS
    finals: Finals = field(default_factory=Finals)
    seeds: Callable[[Task], Sequence[Configuration]] = lambda task: ()  # first proposals, likeliest first
    slowness: Callable[[Task], Sequence[float]] = lambda task: ()  # log(time / best time) to expect, by number
    defaults: Callable[[Task], Iterable[Configuration]] = default_and_stand_ins  # the first that runs is compared with
    counts_as_failure: Callable[[Problem, Configuration], bool] = lambda *_: True  # of trials that are not correct
    progress: Callable[[TuningProgress], None] = silent


DEFAULT_OPTIONS, UNLIMITED = TuningOptions(), Budget()


@dataclass(frozen=True, slots=True)
class Skipped:
    """A problem without a result on a device."""

    problem: Problem
    device: Device
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The work of a run. `task_of` makes the task of a problem on a device, or raises KernelError."""

    problems: Sequence[Problem]
    budget: Budget = UNLIMITED
    options: TuningOptions = DEFAULT_OPTIONS
    task_of: Callable[[Problem, Device], Task] = Task.of
    retry_failed: bool = False  # measure again what timed out or crashed in an earlier run

    def tasks(self, device: Device, on_skip: Callable[[Skipped], None] = lambda skipped: None) -> Iterator[Task]:
        """Yield the task of each problem, made when it is asked for; skip problems that no kernel solves."""
        for problem in self.problems:
            try:
                task = self.task_of(problem, device)
            except KernelError as error:
                on_skip(Skipped(problem, device, str(error)))
                continue
            yield task
