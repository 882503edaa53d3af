"""TuningOptions: the options of a search, its budget and finals, and the progress that it reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from seqtune.data.record import Measurement
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task

from .measuring.timing import DEFAULTS, Options
from .stand_ins import default_and_stand_ins
from .strategies.strategy import StrategyFactory

BATCH = 16  # proposals per `ask`: enough to hide the latency of the worker, few enough to learn in between


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a run. Trials include those in the journal, so a resumed run ends where it would have ended."""

    trials: int | None = None
    seconds: float | None = None  # of this run, with its start and the finals


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
    defaults: Callable[[Task], Iterable[Configuration]] = default_and_stand_ins  # the first that runs is compared with
    on_progress: Callable[[TuningProgress], None] = ignore_progress


DEFAULT_OPTIONS, UNLIMITED = TuningOptions(), Budget()
