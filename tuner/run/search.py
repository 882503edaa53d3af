"""Search: one task's trials, the strategy's proposals and results, and their records. A search measures nothing itself.

`propose` and `accept` do not wait, so one thread can run many searches at a time.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Mapping

from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.task import Task

from ..stand_ins import failed_default
from ..strategies.strategy import OnDemand, SearchContext, Strategy
from ..strategies.table import strategy_factory
from .finals import fastest_finalist, finalists_of, seconds_of
from .history import history
from .plan import TuningOptions, TuningProgress
from .result import TuningResult


class Search:
    """A search of one task."""

    def __init__(self, task: Task, journal: Journal, options: TuningOptions, trial_budget: int | None = None) -> None:
        """Begin a search. `trial_budget` is the maximum number of trials; None: unlimited."""
        self.task, self.journal, self.options = task, journal, options
        self.kernels = {kernel.name: kernel for kernel in task.kernels}
        self.recorded = journal.trials(task.problem, task.device, task.kernels)
        self.trials: dict[Configuration, Measurement] = {}
        self.failed_finals: dict[Configuration, Measurement] = {}
        self.best = math.inf
        self.resumed = 0
        self.trial_budget = trial_budget
        self.limit = len(task) if trial_budget is None else min(trial_budget, len(task))  # trials that it may make
        self.host = platform.node()
        self._device_key, self._fingerprint = task.device.key, task.device.fingerprint  # of every record
        self.ended = False  # the strategy had nothing more to propose

    @property
    def done(self) -> int:
        """The number of trials."""
        return len(self.trials)

    @property
    def times(self) -> list[float]:
        """The seconds of the trials, in the order of measurement."""
        return [measurement.seconds for measurement in self.trials.values()]

    def strategy(self) -> Strategy:
        """Build a strategy for the task, with the journal's history of other problems and the options' seeds."""
        options = self.options
        context = SearchContext(
            self.task, options.seed, self.trial_budget,
            OnDemand(lambda: history(self.journal, self.task)),
            OnDemand(lambda: options.seeds(self.task)),
            OnDemand(lambda: options.slowness(self.task)))
        return strategy_factory(options.strategy)(context)

    def propose(self, strategy: Strategy, count: int) -> list[Configuration]:
        """Ask for up to `count` configurations and return those that must be measured.

        Pass on the results of the others; report a trial that is taken from the journal. `ended` tells that the
        strategy had nothing to propose.
        """
        proposals = strategy.ask(count)
        self.ended = not proposals
        missing = [configuration for configuration in proposals
                   if configuration not in self.recorded and configuration not in self.trials]
        for configuration in proposals:
            if configuration in self.trials:
                strategy.tell(configuration, self.trials[configuration])
            elif configuration in self.recorded:
                self.resumed += 1
                self.accept(strategy, configuration, self.recorded[configuration])
                self.report(configuration, self.recorded[configuration])
        return missing

    def accept(self, strategy: Strategy, configuration: Configuration, measurement: Measurement) -> None:
        """Add a trial, and pass it on to the strategy that proposed it."""
        self.trials[configuration] = measurement
        self.best = min(self.best, measurement.seconds)
        strategy.tell(configuration, measurement)

    def report(self, configuration: Configuration, measurement: Measurement) -> None:
        """Report the progress after a trial."""
        self.options.progress(TuningProgress(
            self.task.problem, self.done, self.resumed, self.limit, configuration, measurement, self.best))

    def record_of(self, configuration: Configuration, measurement: Measurement, run: str, when: float | None = None,
                  host: str | None = None) -> Record:
        """Make the record of a measurement: `when` in seconds since 1970 (None: now), `host` (None: this one)."""
        return Record(self.task.problem, self._device_key, self.kernels[configuration.kernel].version, configuration,
                      self.task.device.toolchain, measurement, time.time() if when is None else when, run,
                      self.host if host is None else host, self._fingerprint)

    def finalists(self) -> list[Configuration]:
        """The configurations that the finals measure again: the fastest trials and the safe default or its stand-in."""
        return finalists_of(self.trials, self.compared, max(1, self.options.finals.count))

    @property
    def compared(self) -> Configuration:
        """The safe default, or the first of its stand-ins that is not known to fail; the default if all do."""
        for configuration in self.options.defaults(self.task):
            if self._failure(configuration) is None:
                return configuration
        return self.task.default

    def _failure(self, configuration: Configuration) -> Measurement | None:
        """The failed final or trial of a configuration; None if it is not known to fail."""
        known = self.failed_finals.get(configuration) or self.trials.get(configuration)
        return known if known is not None and known.status is not Status.CORRECT else None

    def accept_finals(self, measured: Mapping[Configuration, Measurement]) -> bool:
        """Note failures in the finals; return whether these decide: what the others are compared with ran in them.

        Otherwise the finals must be measured again.
        """
        self.failed_finals.update({configuration: measurement for configuration, measurement in measured.items()
                                   if measurement.status is not Status.CORRECT})
        return self.compared in measured

    def unmeasured_finals(self) -> dict[Configuration, Measurement] | None:
        """The finals that need no measurement: trials if the options ask for none, or those in the journal.

        None if the finals must be measured.
        """
        if not self.options.finals.count:
            return self.best_trials()
        return self._recorded_finals() or None if self.resumed == self.done else None

    def so_far(self) -> TuningResult:
        """The result if the search ended here, by its trials alone."""
        return self.result_of(self.best_trials(), paired=False)

    def best_trials(self) -> dict[Configuration, Measurement]:
        """The trials of the finalists, where they were tried."""
        return {configuration: self.trials[configuration] for configuration in self.finalists()
                if configuration in self.trials}

    def result_of(self, measured: Mapping[Configuration, Measurement], paired: bool = True) -> TuningResult:
        """The result, decided by the finals, or by trials, whose samples are not `paired` by rounds."""
        paired = paired and self.options.finals.count > 0
        seconds = seconds_of(measured, paired)
        order = sorted(measured, key=seconds.__getitem__)
        best = fastest_finalist(measured, paired)
        ordered = tuple((configuration, measured[configuration]) for configuration in order)
        failed = {configuration: measurement for configuration, measurement in self.trials.items()
                  if measurement.status is not Status.CORRECT
                  and self.options.counts_as_failure(self.task.problem, configuration)}
        correct = tuple(configuration for configuration, measurement in self.trials.items()
                        if measurement.status is Status.CORRECT)
        return TuningResult(self.task.problem, self.task.device, best, measured[best] if best else None, self.compared,
                            ordered, self.done, self.resumed, len(self.task), failed, self._failed_default(), paired,
                            correct)

    def _failed_default(self) -> str:
        """The sentence on a default that is known to fail; empty if it is not."""
        failure, compared = self._failure(self.task.default), self.compared
        if failure is None:
            return ""
        known = sum(self._failure(configuration) is not None for configuration in self.options.defaults(self.task))
        return failed_default(self.task.default, failure.message or failure.status.value,
                              None if compared == self.task.default else compared, known - 1)

    def _recorded_finals(self) -> dict[Configuration, Measurement]:
        """The finals in the journal, of an earlier run with the same trials; empty unless all finalists are in it."""
        device, versions = self.task.device, {name: kernel.version for name, kernel in self.kernels.items()}
        recorded = {record.configuration: record.measurement
                    for record in self.journal.records(self.task.problem, device.key, run="final")
                    if record.is_todays(device.toolchain, versions) and record.may_be_of(device)}
        self.accept_finals(recorded)
        finalists = self.finalists()
        if not all(configuration in recorded for configuration in finalists):
            return {}
        return {configuration: recorded[configuration] for configuration in finalists}
