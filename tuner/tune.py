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
from dataclasses import dataclass

from seqtune.data.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.errors import InterruptedTuning, KernelError, MisuseError
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.lookup import resolve
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace, spaces_for

from .history import experience
from .measuring.runner import Measurer
from .measuring.significance import faster
from .measuring.timing import DEFAULTS, Options
from .strategies.strategy import STRATEGIES, Strategy, StrategyFactory

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
class Progress:
    """Where a run stands; handed over after each trial is safe in the journal."""

    problem: Problem
    done: int  # trials told so far, of all problems that share the budget
    resumed: int  # of these, from the journal
    total: int  # trials that the budget or the space allow
    configuration: Configuration
    measurement: Measurement
    best: float  # seconds
    problems: int = 1  # that share the budget


@dataclass(frozen=True, slots=True)
class Result:
    """What a run found. `configuration` is None where nothing was correct."""

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


def strategy_factory(name: str) -> StrategyFactory:
    """The strategy of that name. Raises MisuseError."""
    if name not in STRATEGIES:
        raise MisuseError(f"no strategy {name!r:.40}; there are {', '.join(STRATEGIES)}")
    found: StrategyFactory = resolve(STRATEGIES[name])  # type: ignore[assignment]
    return found


def tune(problem: Problem, device: Device, journal: Journal, strategy: str | StrategyFactory = "portfolio",
         budget: Budget = Budget(), *, measurer: Measurer, kernels: Sequence[Kernel] | None = None,
         options: Options = DEFAULTS, finals: Finals = Finals(), seed: int = 0, batch: int = BATCH,
         on_progress: Callable[[Progress], None] = lambda progress: None) -> Result:
    """Searches the spaces of one problem on one device. Raises InterruptedTuning on Ctrl-C, with all in the journal."""
    spaces = spaces_for(problem, device, kernels)
    name, factory = named(strategy)
    search = Search(problem, device, journal, measurer, spaces, options, name)
    try:
        search.run(made(factory, spaces, seed, budget.trials, journal), budget, batch, on_progress)
        return search.result(finals)
    except KeyboardInterrupt:
        raise InterruptedTuning(
            f"stopped after {search.done} trials of {problem.brief()}; all are in {journal.path}; run again to resume"
        ) from None


def tune_all(problems: Iterable[Problem], device: Device, journal: Journal,
             strategy: str | StrategyFactory = "portfolio", budget: Budget = Budget(), *, measurer: Measurer,
             kernels: Sequence[Kernel] | None = None,
             options: Options = DEFAULTS, finals: Finals = Finals(), seed: int = 0, batch: int = BATCH,
             on_progress: Callable[[Progress], None] = lambda progress: None,
             on_skip: Callable[[Problem, str], None] = lambda problem, reason: None) -> Iterator[Result]:
    """`tune` for one problem after another in one worker; the budget is for each. Unsolvable ones are skipped."""
    for problem in problems:
        try:
            result = tune(problem, device, journal, strategy, budget, measurer=measurer, kernels=kernels,
                          options=options, finals=finals, seed=seed, batch=batch, on_progress=on_progress)
        except KernelError as error:
            on_skip(problem, str(error))
            continue
        yield result


def named(strategy: str | StrategyFactory) -> tuple[str, StrategyFactory]:
    """What its trials are filed under, and how it is made."""
    if isinstance(strategy, str):
        return strategy, strategy_factory(strategy)
    return getattr(strategy, "__name__", "custom").lower(), strategy


def made(factory: StrategyFactory, spaces: Sequence[SearchSpace], seed: int, trials: int | None, journal: Journal,
         begun: Sequence[Configuration] | None = None) -> Strategy:
    """The strategy, told what the journal knows of other problems if it asks for that.

    Where its search has `begun`, it is handed those configurations as seeds, and all that is known by now.
    """
    more: dict[str, object] = {}
    if getattr(factory, "takes_history", False):
        more["history"] = experience(journal, spaces, None if begun is None else math.inf)
    if begun is not None and getattr(factory, "takes_seeds", False):
        more["seeds"] = begun
    learning: Callable[..., Strategy] = factory
    return learning(spaces, seed, trials, **more)


class Search:
    """One run over one problem. What it `recalls` is told to strategies that ask for it, and is no progress."""

    def __init__(self, problem: Problem, device: Device, journal: Journal, measurer: Measurer,
                 spaces: Sequence[SearchSpace], options: Options, name: str) -> None:
        self.problem, self.device, self.journal, self.measurer = problem, device, journal, measurer
        self.spaces, self.options, self.name = spaces, options, name
        self.kernels = {space.kernel.name: space.kernel for space in spaces}
        self.known = journal.trials(problem, device, [space.kernel for space in spaces])
        self.found: dict[Configuration, Measurement] = {}
        self.best = math.inf
        self.resumed = 0
        self.size = sum(map(len, spaces))
        self.host = platform.node()
        self.ended = False  # the strategy had no more to ask

    @property
    def done(self) -> int:
        return len(self.found)

    def recall(self) -> None:
        """Begins with all that the journal holds, whoever asked for it."""
        self.found = dict(self.known)
        self.resumed = self.done
        self.best = min((one.seconds for one in self.found.values()), default=math.inf)

    def run(self, strategy: Strategy, budget: Budget, batch: int, on_progress: Callable[[Progress], None]) -> None:
        """Asks, measures and tells until there is nothing left or the budget is spent."""
        deadline = math.inf if budget.seconds is None else time.monotonic() + budget.seconds
        trials = self.size if budget.trials is None else min(budget.trials, self.size)

        def tell(configuration: Configuration, measurement: Measurement) -> None:
            self.found[configuration] = measurement
            self.best = min(self.best, measurement.seconds)
            strategy.tell(configuration, measurement)
            on_progress(Progress(self.problem, self.done, self.resumed, trials, configuration, measurement, self.best))

        self.journal.add_device(self.device)
        while self.done < trials and time.monotonic() < deadline:
            asked = strategy.ask(min(batch, trials - self.done))
            if not asked:
                self.ended = True
                break
            missing = [one for one in asked if one not in self.known and one not in self.found]
            for configuration in asked:
                if configuration in self.found:
                    strategy.tell(configuration, self.found[configuration])
                elif configuration in self.known:
                    self.resumed += 1
                    tell(configuration, self.known[configuration])
            with closing(self.measurer.measure(self.problem, missing, self.options, self.best)) as measuring:
                for configuration, measurement in measuring:
                    self._keep(configuration, measurement, self.name)
                    tell(configuration, measurement)
                    if time.monotonic() >= deadline:
                        break

    def _keep(self, configuration: Configuration, measurement: Measurement, run: str) -> None:
        self.journal.add(Record(
            self.problem, self.device.key, self.kernels[configuration.kernel].version, configuration,
            self.device.toolchain, measurement, time.time(), run, self.host, self.device.fingerprint))

    def result(self, finals: Finals) -> Result:
        """The winner, after the finals."""
        ranked = sorted((one for one in self.found if self.found[one].status is Status.CORRECT),
                        key=lambda one: self.found[one].seconds)
        default = self.spaces[0].default
        finalists = list(dict.fromkeys([*ranked[:max(1, finals.count)], default]))
        if not finals.count:
            measured = {one: self.found[one] for one in finalists if one in self.found}
        else:
            measured = self._finals_known(finalists) if self.resumed == self.done else {}
            if not measured:
                compared = self.measurer.compare(self.problem, finalists, finals.rounds, self.options)
                measured = dict(zip(finalists, compared, strict=True))
                for configuration, measurement in measured.items():
                    self._keep(configuration, measurement, "final")
        order = sorted(measured, key=lambda one: measured[one].seconds)
        best = order[0] if order and measured[order[0]].status is Status.CORRECT else None
        return Result(self.problem, best, measured[best] if best else None, default,
                      tuple((one, measured[one]) for one in order), self.done, self.resumed, self.size)

    def _finals_known(self, finalists: Sequence[Configuration]) -> dict[Configuration, Measurement]:
        """The finals of an earlier run that ended here: all finalists, or none."""
        versions = {name: kernel.version for name, kernel in self.kernels.items()}
        held = {record.configuration: record.measurement
                for record in self.journal.records(self.problem, self.device.key, run="final")
                if record.is_todays(self.device.toolchain, versions) and record.may_be_of(self.device)}
        return {one: held[one] for one in finalists} if all(one in held for one in finalists) else {}
