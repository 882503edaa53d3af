"""The tuning loop: Strategy.ask -> Measurer.measure -> Journal.add -> Strategy.tell, until a budget or the space ends.

A run is resumed by running it again: what the journal holds is told to the strategy without being measured. At the end
the finalists and the safe default are measured again, interleaved: the least of thousands of noisy times flatters.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
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

BATCH = 16  # configurations asked for at once: large enough to hide the pipe, small enough to learn from


@dataclass(frozen=True, slots=True)
class Budget:
    """When to stop. Trials include those that the journal holds already: a resumed run ends where it would have."""

    trials: int | None = None
    seconds: float | None = None  # of this run, without the finalists; kept to within one configuration


@dataclass(frozen=True, slots=True)
class Finals:
    """Who is measured again at the end, and how often."""

    count: int = 5  # best configurations, beside the safe default; 0: no finals
    rounds: int = 16  # the least of 16 interleaved samples is right within 3 % even for cache-bound kernels


@dataclass(frozen=True, slots=True)
class TuningProgress:
    """Where a run stands; handed over after each trial is safe in the journal."""

    problem: Problem
    done: int  # trials told so far, of all problems that share the budget
    resumed: int  # of these, from the journal
    total: int  # trials that the budget or the space allow
    configuration: Configuration
    measurement: Measurement
    best: float  # seconds
    problems: int = 1  # that share the budget


def no_seeds(task: Task) -> Sequence[Configuration]:
    """Begin a search without proposals."""
    return ()


def not_told(progress: TuningProgress) -> None:
    """Tell nobody of a trial."""


@dataclass(frozen=True, slots=True)
class TuningOptions:
    """How to search and to measure, and who is told."""

    strategy: str = "portfolio"  # of the table of strategies; the trials are filed under this name
    factory: StrategyFactory | None = None  # makes the strategy; None: the table's
    seed: int = 0  # of the strategy
    batch: int = BATCH
    measuring: Options = DEFAULTS
    finals: Finals = field(default_factory=Finals)
    seeds: Callable[[Task], Sequence[Configuration]] = no_seeds  # what a search may begin with, likeliest first
    on_progress: Callable[[TuningProgress], None] = not_told


DEFAULT_OPTIONS, UNLIMITED = TuningOptions(), Budget()


@dataclass(frozen=True, slots=True)
class TuningResult:
    """The answer of a run. `configuration` is None where nothing was correct."""

    problem: Problem
    configuration: Configuration | None
    measurement: Measurement | None
    default: Configuration
    finalists: tuple[tuple[Configuration, Measurement], ...]  # fastest first; the default among them
    done: int
    resumed: int
    space: int  # configurations there are

    @property
    def confidence(self) -> float | None:
        """That the winner is faster than the runner-up: 1 - p of a t-test over the finals' rounds; None without both.

        Near 0.5 they are equally fast as far as the finals can tell, and either will do.
        """
        if self.measurement is None or len(self.finalists) < 2:
            return None
        second = self.finalists[1][1].samples
        if min(len(self.measurement.samples), len(second)) < 2:
            return None
        return 1 - faster(self.measurement.samples, second)


def tasks_for(problems: Iterable[Problem], device: Device, kernels: Sequence[Kernel] | None = None,
              on_skip: Callable[[Problem, str], None] = lambda problem, reason: None) -> Iterator[Task]:
    """The task of each problem, one at a time; problems that no kernel solves are skipped, with the reason."""
    for problem in problems:
        try:
            task = Task.of(problem, device, kernels)
        except KernelError as error:
            on_skip(problem, str(error))
            continue
        yield task


def tune(task: Task, journal: Journal, measurer: Measurer, budget: Budget = UNLIMITED,
         options: TuningOptions = DEFAULT_OPTIONS) -> TuningResult:
    """Searches one task by measuring. Raises InterruptedTuning on Ctrl-C, with all in the journal."""
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
    """`tune` for one task after another with one measurer; the budget is for each."""
    return (tune(task, journal, measurer, budget, options) for task in tasks)


class TuningRun:
    """One run over one task. Trials that it recalls go to its strategies as seeds, and are no progress."""

    def __init__(self, task: Task, journal: Journal, measurer: Measurer, options: TuningOptions) -> None:
        self.task, self.journal, self.measurer, self.options = task, journal, measurer, options
        self.kernels = {kernel.name: kernel for kernel in task.kernels}
        self.known = journal.trials(task.problem, task.device, task.kernels)
        self.trials: dict[Configuration, Measurement] = {}
        self.best = math.inf
        self.resumed = 0
        self.host = platform.node()
        self.recalled = False
        self.ended = False  # the strategy had no more to ask

    @property
    def done(self) -> int:
        """The number of trials."""
        return len(self.trials)

    def recall(self) -> None:
        """Begins with all that the journal holds, whoever asked for it."""
        self.trials = dict(self.known)
        self.resumed = self.done
        self.recalled = True
        self.best = min((measurement.seconds for measurement in self.trials.values()), default=math.inf)

    def strategy(self, trials: int | None) -> Strategy:
        """A strategy for the task, knowing what the journal says of other problems and what the options propose.

        After `recall` it begins with the trials so far, and knows all that the journal holds by now.
        """
        options, begun = self.options, tuple(self.trials) if self.recalled else ()
        context = SearchContext(
            self.task, options.seed, trials,
            OnDemand(lambda: history(self.journal, self.task, math.inf if self.recalled else None)),
            OnDemand(lambda: (*begun, *options.seeds(self.task))))
        return (options.factory or strategy_factory(options.strategy))(context)

    def search(self, strategy: Strategy, budget: Budget, batch: int,
               on_progress: Callable[[TuningProgress], None]) -> None:
        """Asks, measures and tells until there is nothing left or the budget is spent."""
        deadline = math.inf if budget.seconds is None else time.monotonic() + budget.seconds
        problem, size = self.task.problem, len(self.task)
        trials = size if budget.trials is None else min(budget.trials, size)

        def tell(configuration: Configuration, measurement: Measurement) -> None:
            self.trials[configuration] = measurement
            self.best = min(self.best, measurement.seconds)
            strategy.tell(configuration, measurement)
            on_progress(TuningProgress(problem, self.done, self.resumed, trials, configuration, measurement, self.best))

        self.journal.add_device(self.task.device)
        while self.done < trials and time.monotonic() < deadline:
            asked = strategy.ask(min(batch, trials - self.done))
            if not asked:
                self.ended = True
                break
            missing = [one for one in asked if one not in self.known and one not in self.trials]
            for configuration in asked:
                if configuration in self.trials:
                    strategy.tell(configuration, self.trials[configuration])
                elif configuration in self.known:
                    self.resumed += 1
                    tell(configuration, self.known[configuration])
            with closing(self.measurer.measure(problem, missing, self.options.measuring, self.best)) as measuring:
                for configuration, measurement in measuring:
                    self._keep(configuration, measurement, self.options.strategy)
                    tell(configuration, measurement)
                    if time.monotonic() >= deadline:
                        break

    def _keep(self, configuration: Configuration, measurement: Measurement, run: str) -> None:
        device = self.task.device
        self.journal.add(Record(
            self.task.problem, device.key, self.kernels[configuration.kernel].version, configuration,
            device.toolchain, measurement, time.time(), run, self.host, device.fingerprint))

    def result(self) -> TuningResult:
        """The winner, after the finals."""
        finals, default = self.options.finals, self.task.default
        ranked = sorted((one for one in self.trials if self.trials[one].status is Status.CORRECT),
                        key=lambda one: self.trials[one].seconds)
        finalists = list(dict.fromkeys([*ranked[:max(1, finals.count)], default]))
        if not finals.count:
            measured = {one: self.trials[one] for one in finalists if one in self.trials}
        else:
            measured = self._finals_known(finalists) if self.resumed == self.done else {}
            if not measured:
                compared = self.measurer.compare(self.task.problem, finalists, finals.rounds, self.options.measuring)
                measured = dict(zip(finalists, compared, strict=True))
                for configuration, measurement in measured.items():
                    self._keep(configuration, measurement, "final")
        order = sorted(measured, key=lambda one: measured[one].seconds)
        best = order[0] if order and measured[order[0]].status is Status.CORRECT else None
        return TuningResult(self.task.problem, best, measured[best] if best else None, default,
                            tuple((one, measured[one]) for one in order), self.done, self.resumed, len(self.task))

    def _finals_known(self, finalists: Sequence[Configuration]) -> dict[Configuration, Measurement]:
        """The finals of an earlier run that ended here: all finalists, or none."""
        device, versions = self.task.device, {name: kernel.version for name, kernel in self.kernels.items()}
        held = {record.configuration: record.measurement
                for record in self.journal.records(self.task.problem, device.key, run="final")
                if record.is_todays(device.toolchain, versions) and record.may_be_of(device)}
        return {one: held[one] for one in finalists} if all(one in held for one in finalists) else {}
