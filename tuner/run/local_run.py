"""LocalRun: a plan on one device: Strategy.ask -> Measurer.measure -> Journal.add -> Strategy.tell, trial by trial.

Running a plan again resumes it: measurements in the journal are passed to the strategy without being repeated. A budget
in seconds includes the finals, so the search ends earlier by their expected time.
"""

from __future__ import annotations

import math
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from seqtune.data.journal.journal import Journal
from seqtune.data.record import Status
from seqtune.errors import InterruptedTuning, UnpreparedError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.registry import kernel, names
from seqtune.kernels.task import Task

from ..measuring.deadline import Deadline, OutOfTime
from ..measuring.recorded_measurer import RecordedMeasurer
from ..measuring.runner import Measurer, Runner
from .finals import measure_finals
from .plan import DEFAULT_OPTIONS, UNLIMITED, Budget, Plan, Skipped, TuningOptions
from .result import TuningResult
from .search import Search

FINALS = 0.4  # share of a budget in seconds that is kept for the finals at most: a search needs trials, too


class LocalRun:
    """A run of a plan by one measurer. Use it once."""

    def __init__(self, plan: Plan, journal: Journal, measurer: Measurer) -> None:
        self.plan, self.journal, self.measurer = plan, journal, measurer
        self.skipped: list[Skipped] = []

    def results(self) -> Iterator[TuningResult]:
        """Run the plan, and yield the result of each problem as soon as it is known.

        Raises InterruptedTuning on Ctrl-C; every finished trial is then in the journal. Raises UnpreparedError if the
        only problem cannot be measured.
        """
        device = self.measurer.device
        if self.plan.retry_failed:
            kernels = tuple(map(kernel, names()))
            for problem in self.plan.problems:
                self.journal.forget_failed(problem, device, kernels)
        for task in self.plan.tasks(device, self.skipped.append):
            try:
                result = tune(task, self.journal, self.measurer, self.plan.budget, self.plan.options)
            except UnpreparedError as error:
                if len(self.plan.problems) == 1:
                    raise
                self.skipped.append(Skipped(task.problem, device, str(error)))
            else:
                yield result


def tune(task: Task, journal: Journal, measurer: Measurer, budget: Budget = UNLIMITED,
         options: TuningOptions = DEFAULT_OPTIONS) -> TuningResult:
    """Search one task by measuring.

    Raises InterruptedTuning on Ctrl-C, with the result so far; every finished trial is then in the journal. Raises
    OutOfTime if the budget ends before the first trial.
    """
    measuring = MeasuredSearch(task, journal, measurer, options, budget)
    search = measuring.search
    try:
        measuring.run()
        return measuring.result()
    except KeyboardInterrupt:
        raise InterruptedTuning(
            f"stopped after {search.done} trials of {task.problem.brief()}; all are in {journal.path}; run again to "
            "resume", (search.so_far(),)) from None


class MeasuredSearch:
    """A search of one task that waits for its measurer. Search and finals end at the deadline."""

    def __init__(self, task: Task, journal: Journal, measurer: Measurer, options: TuningOptions = DEFAULT_OPTIONS,
                 budget: Budget = UNLIMITED, deadline: Deadline | None = None) -> None:
        """Begin a search, and its `deadline` (None: that of the budget)."""
        seconds = math.inf if budget.seconds is None else budget.seconds
        self.deadline = Deadline(seconds) if deadline is None else deadline
        self.search = Search(task, journal, options, budget.trials)
        self.measurer = measurer

    def run(self) -> None:
        """Propose, measure and pass on results until the limit of trials or the time is spent, or the strategy ends.

        Raises OutOfTime if there was no time for a single trial.
        """
        search, options = self.search, self.search.options
        problem, strategy = search.task.problem, search.strategy()
        search.journal.add_device(search.task.device)
        while search.done < search.limit and self._has_time():
            missing = search.propose(strategy, min(options.batch, search.limit - search.done))
            if search.ended:
                break
            measuring_options = replace(options.measuring, budget=self.deadline.hard.left)
            with closing(self.measurer.measure(problem, missing, measuring_options, search.best)) as measuring:
                for configuration, measurement in measuring:
                    search.journal.add(search.record_of(configuration, measurement, options.strategy))
                    search.accept(strategy, configuration, measurement)
                    search.report(configuration, measurement)
                    if not self._has_time():
                        break
        if not search.done and self.deadline.is_over:
            raise OutOfTime(f"{problem.brief()}: no configuration could be measured within {self.deadline.seconds:g} "
                            "s; give more (--seconds)")

    def _has_time(self) -> bool:
        """Whether there is time for another trial before the finals."""
        return math.isinf(self.deadline.seconds) or self.deadline.left > self._finals_seconds()

    def _finals_seconds(self) -> float:
        """The seconds that finals of the best trials so far would take; at most FINALS of the budget."""
        finals, least = self.search.options.finals, 1.5 * self.search.options.measuring.sample_seconds
        finalists = self.search.best_trials().values() if finals.count else ()
        launches = 2 * (1 + finals.rounds)  # a check, and before each sample one that warms up
        needed = sum(trial.build_seconds + launches * max(least, trial.seconds)
                     for trial in finalists if trial.status is Status.CORRECT)
        return min(needed, FINALS * self.deadline.seconds)

    def result(self) -> TuningResult:
        """Measure the finals, if the options ask for them and there is time, and return the result."""
        search, options = self.search, self.search.options
        measured = search.unmeasured_finals()
        while measured is None:
            finals = measure_finals(self.measurer, search.task.problem, search.finalists(), options.finals,
                                    options.measuring, self.deadline)
            if not finals:
                return search.so_far()
            session = uuid.uuid4().hex
            for configuration, measurement in finals.items():
                search.journal.add(replace(search.record_of(configuration, measurement, "final"), session=session))
            measured = finals if search.accept_finals(finals) else None
        return search.result_of(measured)


class Run(Protocol):
    """A plan with the members that measure it. The package says what each kind of run promises."""

    @property
    def skipped(self) -> Sequence[Skipped]:
        """The problems that were left out so far, with the reasons."""
        ...

    def results(self) -> Iterator[TuningResult]:
        """Run, and yield each result when it is known. Raises InterruptedTuning on Ctrl-C, with the results so far."""
        ...


@contextmanager
def this_machine(plan: Plan, device: Device, journal: str | Path | None) -> Iterator[LocalRun]:
    """Open a device of this machine and the journal (None: the user's), and make a run of the plan."""
    with Journal(journal) as records, Runner(device) as runner:
        runner.start()
        yield LocalRun(plan, records, runner)


@contextmanager
def replay(plan: Plan, recorded: RecordedMeasurer) -> Iterator[LocalRun]:
    """Make a run of the plan that measures nothing. Its journal is temporary.

    A configuration that is not recorded did not fail, so it is not counted, and nothing stands in for the default.
    """
    options = replace(plan.options, defaults=lambda task: (task.default,), counts_as_failure=recorded.has)
    with tempfile.TemporaryDirectory(prefix="seqtune-") as folder, \
            Journal(Path(folder) / "replay.sqlite") as records:
        yield LocalRun(replace(plan, options=options), records, recorded)
