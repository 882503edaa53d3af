"""The tuning loop: Strategy.ask -> Measurer.measure -> Journal.add -> Strategy.tell, until a budget or the space ends.

Running a search again resumes it: measurements in the journal are passed to the strategy without being repeated. At
the end the finalists and the safe default are measured again, interleaved, because the least of thousands of noisy
times is too optimistic.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from seqtune.data.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.errors import InterruptedTuning, KernelError
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task

from .history import history
from .measuring.runner import Measurer
from .measuring.significance import faster
from .measuring.timing import DEFAULTS, Options
from .strategies.strategy import OnDemand, SearchContext, Strategy, StrategyFactory
from .strategies.table import strategy_factory

BATCH = 16  # proposals per `ask`: enough to hide the latency of the worker, few enough to learn in between


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a run. Trials include those in the journal, so a resumed run ends where it would have ended."""

    trials: int | None = None
    seconds: float | None = None  # of this run, without the finals; exceeded by at most one configuration


@dataclass(frozen=True, slots=True)
class Finals:
    """The number of configurations that are measured again at the end, and the number of rounds."""

    count: int = 5  # best configurations, in addition to the safe default; 0: no finals
    rounds: int = 16  # the least of 16 interleaved samples is within 3 % of the true time even for cache-bound kernels
    noisy: float = 0.1  # spread of the winner's samples from which the finals are held again, with `more_rounds`
    more_rounds: int = 64  # PoCL's launches of 80 us vary by 20 %, and the least of 16 by 7 %


@dataclass(frozen=True, slots=True)
class TuningProgress:
    """The state of a run after a trial, reported once the trial is in the journal."""

    problem: Problem
    done: int  # trials so far, of all problems that share the budget
    resumed: int  # trials of these that were in the journal
    total: int  # maximum number of trials by budget and space
    configuration: Configuration
    measurement: Measurement
    best: float  # least time so far, in seconds
    problems: int = 1  # number of problems that share the budget


def no_seeds(task: Task) -> Sequence[Configuration]:
    """Begin a search without proposals."""
    return ()


def unknown_slowness(task: Task) -> Sequence[float]:
    """Begin a search without an expected slowness of every configuration."""
    return ()


def ignore_progress(progress: TuningProgress) -> None:
    """Do not report a trial."""


@dataclass(frozen=True, slots=True)
class TuningOptions:
    """The options of searching, measuring and reporting."""

    strategy: str = "portfolio"  # name in the table of strategies; trials are recorded under this name
    factory: StrategyFactory | None = None  # None: the factory in the table
    seed: int = 0  # of the strategy's random numbers
    batch: int = BATCH  # proposals per `ask`
    measuring: Options = DEFAULTS
    finals: Finals = field(default_factory=Finals)
    seeds: Callable[[Task], Sequence[Configuration]] = no_seeds  # first proposals, likeliest first
    slowness: Callable[[Task], Sequence[float]] = unknown_slowness  # log(time / best time) to expect, by number
    on_progress: Callable[[TuningProgress], None] = ignore_progress


DEFAULT_OPTIONS, UNLIMITED = TuningOptions(), Budget()


@dataclass(frozen=True, slots=True)
class TuningResult:
    """The result of a run. `configuration` is None if no configuration was correct."""

    problem: Problem
    configuration: Configuration | None
    measurement: Measurement | None  # of the configuration; of the finals if there were any
    default: Configuration
    finalists: tuple[tuple[Configuration, Measurement], ...]  # fastest first, including the default
    done: int  # trials
    resumed: int  # trials of these that were in the journal
    space: int  # number of configurations of the task

    @property
    def confidence(self) -> float | None:
        """The confidence that the winner is faster than the runner-up: 1 - p of a t-test over the finals' rounds.

        Near 0.5 the finals show no difference. None if there are fewer than two finalists or rounds.
        """
        if self.measurement is None or len(self.finalists) < 2:
            return None
        second = self.finalists[1][1].samples
        if min(len(self.measurement.samples), len(second)) < 2:
            return None
        return 1 - faster(self.measurement.samples, second)


def finalists_of(seconds: Mapping[Configuration, float], default: Configuration, count: int) -> list[Configuration]:
    """The configurations that are measured again at the end: the `count` fastest that are correct, and the default."""
    correct = [configuration for configuration, time in seconds.items() if math.isfinite(time)]
    return list(dict.fromkeys([*sorted(correct, key=seconds.__getitem__)[:count], default]))


def hold_finals(measurer: Measurer, problem: Problem, finalists: Sequence[Configuration], finals: Finals,
                options: Options) -> dict[Configuration, Measurement]:
    """Measure the finalists interleaved; where times are noisy, once more and for longer."""
    measured: dict[Configuration, Measurement] = {}
    for rounds in (finals.rounds, finals.more_rounds):
        measured = dict(zip(finalists, measurer.compare(problem, finalists, rounds, options), strict=True))
        winner = fastest_finalist(measured)
        if winner is None or measured[winner].spread < finals.noisy:
            break
    return measured


def fastest_finalist(measured: Mapping[Configuration, Measurement]) -> Configuration | None:
    """The winner of the finals; None if none was correct."""
    fastest = min(measured, key=lambda configuration: measured[configuration].seconds, default=None)
    return fastest if fastest is not None and measured[fastest].status is Status.CORRECT else None


def tasks_for(problems: Iterable[Problem], device: Device, kernels: Sequence[Kernel] | None = None,
              on_skip: Callable[[Problem, str], None] = lambda problem, reason: None) -> Iterator[Task]:
    """Yield the task of each problem; call `on_skip` with the reason for a problem that no kernel solves."""
    for problem in problems:
        try:
            task = Task.of(problem, device, kernels)
        except KernelError as error:
            on_skip(problem, str(error))
            continue
        yield task


def tune(task: Task, journal: Journal, measurer: Measurer, budget: Budget = UNLIMITED,
         options: TuningOptions = DEFAULT_OPTIONS) -> TuningResult:
    """Search one task by measuring.

    Raises InterruptedTuning on Ctrl-C; every finished trial is then in the journal.
    """
    run = TuningRun(task, journal, measurer, options)
    try:
        run.search(run.strategy(budget.trials), budget, options.batch, options.on_progress)
        return run.result()
    except KeyboardInterrupt:
        raise InterruptedTuning(
            f"stopped after {run.done} trials of {task.problem.brief()}; all are in {journal.path}; run again to resume"
        ) from None


def tune_all(tasks: Iterable[Task], journal: Journal, measurer: Measurer, budget: Budget = UNLIMITED,
             options: TuningOptions = DEFAULT_OPTIONS) -> Iterator[TuningResult]:
    """Tune one task after another with one measurer; the budget is for each task."""
    return (tune(task, journal, measurer, budget, options) for task in tasks)


class TuningRun:
    """A search of one task. Trials from `recall` are seeds of its strategies and do not count as progress."""

    def __init__(self, task: Task, journal: Journal, measurer: Measurer, options: TuningOptions) -> None:
        self.task, self.journal, self.measurer, self.options = task, journal, measurer, options
        self.kernels = {kernel.name: kernel for kernel in task.kernels}
        self.recorded = journal.trials(task.problem, task.device, task.kernels)
        self.trials: dict[Configuration, Measurement] = {}
        self.best = math.inf
        self.resumed = 0
        self.host = platform.node()
        self.recalled = False
        self.ended = False  # the strategy had nothing more to propose

    @property
    def done(self) -> int:
        """The number of trials."""
        return len(self.trials)

    def recall(self) -> None:
        """Take over all trials in the journal, whichever strategy proposed them."""
        self.trials = dict(self.recorded)
        self.resumed = self.done
        self.recalled = True
        self.best = min((measurement.seconds for measurement in self.trials.values()), default=math.inf)

    def strategy(self, trials: int | None) -> Strategy:
        """Build a strategy for the task, with the journal's history of other problems and the options' seeds.

        After `recall` the trials so far come first among the seeds, and the history includes the latest trials.
        """
        options, tried = self.options, tuple(self.trials) if self.recalled else ()
        context = SearchContext(
            self.task, options.seed, trials,
            OnDemand(lambda: history(self.journal, self.task, math.inf if self.recalled else None)),
            OnDemand(lambda: (*tried, *options.seeds(self.task))),
            OnDemand(lambda: options.slowness(self.task)))
        return (options.factory or strategy_factory(options.strategy))(context)

    def search(self, strategy: Strategy, budget: Budget, batch: int,
               on_progress: Callable[[TuningProgress], None]) -> None:
        """Propose, measure and pass on results until the budget is spent or the strategy ends."""
        deadline = math.inf if budget.seconds is None else time.monotonic() + budget.seconds
        problem, size = self.task.problem, len(self.task)
        trials = size if budget.trials is None else min(budget.trials, size)

        def add_trial(configuration: Configuration, measurement: Measurement) -> None:
            self.trials[configuration] = measurement
            self.best = min(self.best, measurement.seconds)
            strategy.tell(configuration, measurement)
            on_progress(TuningProgress(problem, self.done, self.resumed, trials, configuration, measurement, self.best))

        self.journal.add_device(self.task.device)
        while self.done < trials and time.monotonic() < deadline:
            proposals = strategy.ask(min(batch, trials - self.done))
            if not proposals:
                self.ended = True
                break
            missing = [configuration for configuration in proposals
                       if configuration not in self.recorded and configuration not in self.trials]
            for configuration in proposals:
                if configuration in self.trials:
                    strategy.tell(configuration, self.trials[configuration])
                elif configuration in self.recorded:
                    self.resumed += 1
                    add_trial(configuration, self.recorded[configuration])
            with closing(self.measurer.measure(problem, missing, self.options.measuring, self.best)) as measuring:
                for configuration, measurement in measuring:
                    self._record(configuration, measurement, self.options.strategy)
                    add_trial(configuration, measurement)
                    if time.monotonic() >= deadline:
                        break

    def _record(self, configuration: Configuration, measurement: Measurement, run: str) -> None:
        device = self.task.device
        self.journal.add(Record(
            self.task.problem, device.key, self.kernels[configuration.kernel].version, configuration,
            device.toolchain, measurement, time.time(), run, self.host, device.fingerprint))

    def result(self) -> TuningResult:
        """Measure the finals, if the options ask for them, and return the result."""
        finals, default = self.options.finals, self.task.default
        seconds = {configuration: measurement.seconds for configuration, measurement in self.trials.items()}
        finalists = finalists_of(seconds, default, max(1, finals.count))
        if not finals.count:
            measured = {configuration: self.trials[configuration] for configuration in finalists
                        if configuration in self.trials}
        else:
            measured = self._recorded_finals(finalists) if self.resumed == self.done else {}
            if not measured:
                measured = hold_finals(self.measurer, self.task.problem, finalists, finals, self.options.measuring)
                for configuration, measurement in measured.items():
                    self._record(configuration, measurement, "final")
        order = sorted(measured, key=lambda configuration: measured[configuration].seconds)
        best = fastest_finalist(measured)
        ordered = tuple((configuration, measured[configuration]) for configuration in order)
        return TuningResult(self.task.problem, best, measured[best] if best else None, default,
                            ordered, self.done, self.resumed, len(self.task))

    def _recorded_finals(self, finalists: Sequence[Configuration]) -> dict[Configuration, Measurement]:
        """The finals in the journal, of an earlier run with the same trials; empty unless all finalists are in it."""
        device, versions = self.task.device, {name: kernel.version for name, kernel in self.kernels.items()}
        recorded = {record.configuration: record.measurement
                    for record in self.journal.records(self.task.problem, device.key, run="final")
                    if record.is_todays(device.toolchain, versions) and record.may_be_of(device)}
        if not all(configuration in recorded for configuration in finalists):
            return {}
        return {configuration: recorded[configuration] for configuration in finalists}
