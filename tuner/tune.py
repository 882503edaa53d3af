"""The tuning loop: Strategy.ask -> Measurer.measure -> Journal.add -> Strategy.tell, until a budget or the space ends.

Running a search again resumes it: measurements in the journal are passed to the strategy without being repeated. At
the end the finalists and the safe default are measured again, interleaved, because the least of thousands of noisy
times is too optimistic.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing

from seqtune.data.journal import Journal
from seqtune.data.record import Measurement
from seqtune.errors import InterruptedTuning, KernelError, UnpreparedError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task

from .measuring.batches import compare_batch
from .measuring.runner import Measurer
from .measuring.timing import Options
from .search import Search, TuningResult, fastest_finalist, finalists_of
from .strategies.strategy import Strategy
from .tuning_options import (
    BATCH,
    DEFAULT_OPTIONS,
    UNLIMITED,
    Budget,
    Finals,
    TuningOptions,
    TuningProgress,
    no_seeds,
)

__all__ = [
    "BATCH", "DEFAULT_OPTIONS", "UNLIMITED", "Budget", "Finals", "OnSkip", "TuningOptions", "TuningProgress",
    "TuningResult", "TuningRun", "fastest_finalist", "finalists_of", "hold_finals", "no_seeds", "tasks_for", "tune",
    "tune_all",
]

OnSkip = Callable[[Problem, UnpreparedError], None]


def hold_finals(measurer: Measurer, problem: Problem, finalists: Sequence[Configuration], finals: Finals,
                options: Options) -> dict[Configuration, Measurement]:
    """Measure the finalists interleaved; where times are noisy, once more and for longer."""
    measured: dict[Configuration, Measurement] = {}
    for rounds in (finals.rounds, finals.more_rounds):
        measured = dict(zip(finalists, compare_batch(measurer, problem, finalists, rounds, options, options.order_seed),
                            strict=True))
        winner = fastest_finalist(measured)
        if winner is None or measured[winner].spread < finals.noisy:
            break
    return measured


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

    Raises InterruptedTuning on Ctrl-C, with the result so far; every finished trial is then in the journal.
    """
    run = TuningRun(task, journal, measurer, options)
    try:
        run.search(run.strategy(budget.trials), budget, options.batch, options.on_progress)
        return run.result()
    except KeyboardInterrupt:
        raise InterruptedTuning(
            f"stopped after {run.done} trials of {task.problem.brief()}; all are in {journal.path}; run again to "
            "resume", (run.so_far(),)) from None


def tune_all(tasks: Iterable[Task], journal: Journal, measurer: Measurer, budget: Budget = UNLIMITED,
             options: TuningOptions = DEFAULT_OPTIONS, on_skip: OnSkip | None = None) -> Iterator[TuningResult]:
    """Tune one task after another with one measurer; the budget is for each task.

    `on_skip` is called with the reason for a problem that cannot be measured. Without it, UnpreparedError is raised.
    """
    for task in tasks:
        try:
            result = tune(task, journal, measurer, budget, options)
        except UnpreparedError as error:
            if on_skip is None:
                raise
            on_skip(task.problem, error)
        else:
            yield result


class TuningRun(Search):
    """A search of one task with a measurer, which it waits for."""

    def __init__(self, task: Task, journal: Journal, measurer: Measurer, options: TuningOptions) -> None:
        super().__init__(task, journal, options)
        self.measurer = measurer

    def search(self, strategy: Strategy, budget: Budget, batch: int,
               on_progress: Callable[[TuningProgress], None]) -> None:
        """Propose, measure and pass on results until the budget is spent or the strategy ends."""
        deadline = math.inf if budget.seconds is None else time.monotonic() + budget.seconds
        problem, trials = self.task.problem, self.limit(budget.trials)

        def report(configuration: Configuration, measurement: Measurement) -> None:
            on_progress(TuningProgress(problem, self.done, self.resumed, trials, configuration, measurement, self.best))

        self.journal.add_device(self.task.device)
        while self.done < trials and time.monotonic() < deadline:
            missing = self.propose(strategy, min(batch, trials - self.done), report)
            if self.ended:
                break
            with closing(self.measurer.measure(problem, missing, self.options.measuring, self.best)) as measuring:
                for configuration, measurement in measuring:
                    self.journal.add(self.record_of(configuration, measurement, self.options.strategy))
                    self.accept(strategy, configuration, measurement)
                    report(configuration, measurement)
                    if time.monotonic() >= deadline:
                        break

    def result(self) -> TuningResult:
        """Measure the finals, if the options ask for them, and return the result."""
        measured = self.unmeasured_finals()
        while measured is None:
            held = hold_finals(self.measurer, self.task.problem, self.finalists(), self.options.finals,
                               self.options.measuring)
            for configuration, measurement in held.items():
                self.journal.add(self.record_of(configuration, measurement, "final"))
            measured = held if self.settles(held) else None
        return self.result_of(measured)
