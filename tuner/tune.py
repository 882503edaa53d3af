"""The tuning loop: Strategy.ask -> Measurer.measure -> Journal.add -> Strategy.tell, until a budget or the space ends.

Running a search again resumes it: measurements in the journal are passed to the strategy without being repeated. At
the end the finalists and the safe default are measured again, interleaved, because the least of thousands of noisy
times is too optimistic. A budget in seconds includes these finals, so the search ends earlier by their expected time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace

from seqtune.data.journal import Journal
from seqtune.data.record import Measurement, Status
from seqtune.errors import InterruptedTuning, KernelError, UnpreparedError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task

from .measuring.batches import compare_batch
from .measuring.deadline import Deadline, OutOfTime
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

FINALS = 0.4  # share of a budget in seconds that is kept for the finals at most: a search needs trials, too

OnSkip = Callable[[Problem, UnpreparedError], None]


def hold_finals(measurer: Measurer, problem: Problem, finalists: Sequence[Configuration], finals: Finals,
                options: Options, deadline: Deadline | None = None) -> dict[Configuration, Measurement]:
    """Measure the finalists in rounds; where times are noisy and time is left, once more and for longer.

    The result is empty if there is no time for a single round before the hard end of the `deadline`.
    """
    deadline = Deadline() if deadline is None else deadline
    began = deadline.elapsed
    try:
        measured = _compared(measurer, problem, finalists, finals.rounds, options, deadline)
    except OutOfTime:
        return {}
    winner = fastest_finalist(measured)
    if winner is None or measured[winner].spread < finals.noisy or deadline.left < deadline.elapsed - began:
        return measured
    with suppress(OutOfTime):
        measured = _compared(measurer, problem, finalists, finals.more_rounds, options, deadline)
    return measured


def _compared(measurer: Measurer, problem: Problem, finalists: Sequence[Configuration], rounds: int,
              options: Options, deadline: Deadline) -> dict[Configuration, Measurement]:
    limited = replace(options, planned=deadline.left, budget=deadline.hard.left)
    compared = compare_batch(measurer, problem, finalists, rounds, limited, options.order_seed)
    return dict(zip(finalists, compared, strict=True))


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

    Raises InterruptedTuning on Ctrl-C, with the result so far; every finished trial is then in the journal. Raises
    OutOfTime if the budget ends before the first trial.
    """
    run = TuningRun(task, journal, measurer, options, Deadline(math.inf if budget.seconds is None else budget.seconds))
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
    """A search of one task with a measurer, which it waits for. Search and finals end at the deadline."""

    def __init__(self, task: Task, journal: Journal, measurer: Measurer, options: TuningOptions,
                 deadline: Deadline | None = None) -> None:
        super().__init__(task, journal, options)
        self.measurer = measurer
        self.deadline = Deadline() if deadline is None else deadline

    def search(self, strategy: Strategy, budget: Budget, batch: int,
               on_progress: Callable[[TuningProgress], None]) -> None:
        """Propose, measure and pass on results until the budget of trials or the time is spent, or the strategy ends.

        Raises OutOfTime if there was no time for a single trial.
        """
        problem, trials = self.task.problem, self.limit(budget.trials)

        def report(configuration: Configuration, measurement: Measurement) -> None:
            on_progress(TuningProgress(problem, self.done, self.resumed, trials, configuration, measurement, self.best))

        self.journal.add_device(self.task.device)
        while self.done < trials and self._has_time():
            missing = self.propose(strategy, min(batch, trials - self.done), report)
            if self.ended:
                break
            measuring_options = replace(self.options.measuring, budget=self.deadline.hard.left)
            with closing(self.measurer.measure(problem, missing, measuring_options, self.best)) as measuring:
                for configuration, measurement in measuring:
                    self.journal.add(self.record_of(configuration, measurement, self.options.strategy))
                    self.accept(strategy, configuration, measurement)
                    report(configuration, measurement)
                    if not self._has_time():
                        break
        if not self.done and self.deadline.is_over:
            raise OutOfTime(f"{problem.brief()}: no configuration could be measured within {self.deadline.seconds:g} "
                            "s; give more (--seconds)")

    def _has_time(self) -> bool:
        """Whether there is time for another trial before the finals."""
        return math.isinf(self.deadline.seconds) or self.deadline.left > self._finals_seconds()

    def _finals_seconds(self) -> float:
        """The seconds that finals of the best trials so far would take; at most FINALS of the budget."""
        finals, least = self.options.finals, 1.5 * self.options.measuring.sample_seconds
        finalists = self._best_trials().values() if finals.count else ()
        launches = 2 * (1 + finals.rounds)  # a check, and before each sample one that warms up
        needed = sum(trial.build_seconds + launches * max(least, trial.seconds)
                     for trial in finalists if trial.status is Status.CORRECT)
        return min(needed, FINALS * self.deadline.seconds)

    def result(self) -> TuningResult:
        """Measure the finals, if the options ask for them and there is time, and return the result."""
        measured = self.unmeasured_finals()
        while measured is None:
            held = hold_finals(self.measurer, self.task.problem, self.finalists(), self.options.finals,
                               self.options.measuring, self.deadline)
            if not held:
                return self.so_far()
            for configuration, measurement in held.items():
                self.journal.add(self.record_of(configuration, measurement, "final"))
            measured = held if self.settles(held) else None
        return self.result_of(measured)
