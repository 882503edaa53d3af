"""Collection: what is measured of one device so far, and what the stages of collecting need to measure more."""

from __future__ import annotations

import math
import platform
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from seqtune.data.journal.journal import REPEATED, Journal
from seqtune.data.record import Record
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.collected import ProblemSplit
from seqtune.kernels.problem_sets.kinds import spread_over_kinds
from seqtune.kernels.registry import kernels_for
from seqtune.kernels.task import Floats, MeasuredTask, Task
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from seqtune.tuner.measuring.runner import Measurer
from seqtune.tuner.measuring.timing import Options

from ...errors import KernelError

MEASURING = Options(longest_seconds=0.03)  # a kernel of 10 ms is less noisy than one of 100 us: fewer samples
GROWN = 1.5  # times as many trials, after which another fit changes the trees much
Proposals = Callable[[Task], Sequence[Configuration]]  # what a model would choose, for which a label is wanted


@dataclass
class Collection:
    """The problems to measure on one device, and the times that a journal holds of them.

    Held-out problems are measured completely. `times` are those of configurations measured alone, by problem; a
    configuration that failed takes infinitely long. `runs` are the names of the runs that a problem has records of.
    """

    device: Device
    journal: Journal
    measurer: Measurer
    split: ProblemSplit
    trials: int  # random configurations of a training problem
    propose: Proposals
    seed: int = 0  # decides the order of problems and the random configurations
    renew: Callable[[], None] = lambda: None  # called between two builds of a contest
    problems: Sequence[Problem] = field(init=False)  # all, in the order of measuring
    held_out: frozenset[Problem] = field(init=False)
    times: dict[Problem, dict[Configuration, float]] = field(default_factory=lambda: defaultdict(dict))
    runs: dict[Problem, set[str]] = field(default_factory=lambda: defaultdict(set))
    forecast: Forecast = field(init=False)
    _trees: dict[str, tuple[Trees, int]] = field(default_factory=dict)  # operation -> trees, trials they are fitted to

    def __post_init__(self) -> None:
        """Read what the journal holds of the device, measured with today's kernels and toolchain on this machine."""
        self.held_out = frozenset(self.split.held_out)
        self.problems = spread_over_kinds((*self.split.held_out, *self.split.training), self.seed)
        self.journal.add_device(self.device)
        versions, written = _Versions(self.device), []
        for record in self.journal.records(device=self.device.key):
            if record.may_be_of(self.device) and record.is_todays(self.device.toolchain, versions.of(record.problem)):
                self.runs[record.problem].add(record.run)
                written.append(record.when)
                if record.run not in REPEATED:
                    self.times[record.problem][record.configuration] = record.measurement.seconds
        self.forecast = Forecast.of(self.device.backend, self.trials, written)

    def seed_of(self, problem: Problem) -> int:
        """The seed of a problem's random choices."""
        return zlib.crc32(problem.key.encode(), self.seed)

    def task(self, problem: Problem) -> Task | None:
        """The task of a problem on the device; None if no kernel solves it there."""
        try:
            return Task.of(problem, self.device)
        except KernelError:
            return None

    def seconds(self, task: Task) -> Floats:
        """The times of a task's configurations by number, NaN where it was not measured."""
        return MeasuredTask.of_times(task, self.times[task.problem]).seconds

    def ran(self, problem: Problem) -> bool:
        """Whether a configuration of the problem ran."""
        return any(map(math.isfinite, self.times[problem].values()))

    def trees(self, operation: str) -> Trees:
        """Trees of the device, fitted to the trials of an operation's problems.

        They are fitted again when there are GROWN times as many trials.
        """
        measured = [problem for problem in self.problems if problem.type == operation and self.ran(problem)]
        trials = sum(len(self.times[problem]) for problem in measured)
        known = self._trees.get(operation)
        if known is None or trials > GROWN * known[1]:
            tasks = [MeasuredTask(task, self.seconds(task)) for problem in measured
                     if (task := self.task(problem)) is not None]
            known = self._trees[operation] = Trees(tasks, TreesOptions(models=1)), trials
        return known[0]

    def measure(self, task: Task, configurations: Sequence[Configuration], run: str, options: Options = MEASURING,
                best: float = math.inf) -> None:
        """Measure configurations alone, and store each record under the name of the run at once."""
        versions = {kernel.name: kernel.version for kernel in task.kernels}
        ordered = sorted(configurations, key=lambda configuration: configuration.kernel)  # a worker takes one at a time
        for configuration, measurement in self.measurer.measure(task.problem, ordered, options, best):
            self.journal.add(Record(task.problem, self.device.key, versions[configuration.kernel], configuration,
                                    self.device.toolchain, measurement, time.time(), run, platform.node(),
                                    self.device.fingerprint))
            self.runs[task.problem].add(run)
            if run not in REPEATED:
                self.times[task.problem][configuration] = measurement.seconds


class _Versions:
    """Today's versions of the kernels that solve a problem on a device, by problem."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.by_problem: dict[Problem, dict[str, int]] = {}

    def of(self, problem: Problem) -> dict[str, int]:
        """The versions by name of the kernel."""
        if problem not in self.by_problem:
            self.by_problem[problem] = {kernel.name: kernel.version for kernel in kernels_for(problem, self.device)}
        return self.by_problem[problem]


SECONDS = {"llvm": 0.2}  # of a record with its build, on two cores; on all other backends building takes longer
SECONDS_ELSEWHERE = 0.9
LATER = 65  # records of the stages after the trials: proposals, neighbours of the best, a contest in two builds
PAUSE = 30.0  # seconds between two records from which on nothing was measured in between


@dataclass
class Forecast:
    """The expected seconds of a problem, from all stages of those that were measured, or else of its backend."""

    seconds: float
    problems: int = 0  # measured from beginning to end, whose mean `seconds` is

    @classmethod
    def of(cls, backend: str, trials: int, times: Sequence[float]) -> Forecast:
        """The forecast of a device before anything is measured, with `times` of earlier records, in seconds."""
        gaps = np.diff(np.sort(np.asarray(times, float)))
        gaps = gaps[gaps < PAUSE]
        record = float(gaps.mean()) if len(gaps) >= trials else SECONDS.get(backend, SECONDS_ELSEWHERE)
        return cls(record * (trials + LATER))

    def learn(self, problems: int, seconds: float) -> None:
        """Take problems into the mean that were measured from beginning to end in these seconds together."""
        if problems:
            before = self.problems * self.seconds
            self.problems += problems
            self.seconds = (before + seconds) / self.problems

    def block(self, wanted: int, left: float) -> int:
        """The number of problems to measure together: `wanted`, or fewer that can be completed in the seconds left."""
        return max(1, int(min(wanted, left / self.seconds)))

    def text(self, device: str, remaining: int, left: float) -> str:
        """Say what the seconds that are left will buy, in a line."""
        known = f"{device}: {remaining} problem{'s' * (remaining != 1)} to complete, about {self.seconds:.0f} s each"
        if math.isinf(left):
            return f"{known}, {remaining * self.seconds / 60:.0f} min in all"
        complete = min(remaining, int(left / self.seconds))
        buys = f"is enough for about {complete}" if complete else "may complete none (fewer --trials take less)"
        return f"{known}: {left / 60:.3g} min {buys}"
