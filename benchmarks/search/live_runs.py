"""Live runs: the searches of a comparison, one after the other, each stored when it is finished.

Every run has its own worker process and an empty journal. Elapsed time begins before the worker starts and the search
space is built; it includes proposing, building (see ChargedMeasurer), checking and measuring. Only the time of reading
the model is not part of it, as a process that tunes many problems reads it once. All strategies take turns on one
problem with one seed before the next seed begins.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.common.peer_search import search_as_peer
from benchmarks.common.peers import PREFIX
from benchmarks.search.charged_measurer import BuildSeconds, ChargedMeasurer
from benchmarks.search.search_run import SearchRun, Trial
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.predictor.answering import seeds_for, slowness_for
from seqtune.tuner.measuring.runner import Measurer, Runner
from seqtune.tuner.run.local_run import MeasuredSearch
from seqtune.tuner.run.plan import Budget, TuningOptions, TuningProgress
from seqtune.tuner.strategies.table import strategy_entry

LARGEST_FILE = 10_000_000  # bytes of a stored run
NoteTrial = Callable[[int, Measurement], None]  # the number of a configuration and its measurement


@dataclass(frozen=True, slots=True)
class LiveRun:
    """One search of the comparison: who searches what."""

    device: Device
    problem: Problem
    method: str  # a strategy of ours, or PREFIX and one of Kernel Tuner's
    seed: int

    def search(self, trials: int, builds: Path) -> SearchRun:
        """Search now. The file `builds` holds the seconds of all builds of this problem."""
        first = BuildSeconds(builds, Task.of(self.problem, self.device))
        steps: list[Trial] = []
        start = time.monotonic()
        with Runner(self.device) as runner:
            runner.start()
            measurer = ChargedMeasurer(runner, first)

            def note(number: int, measurement: Measurement) -> None:
                elapsed = time.monotonic() - start + measurer.debt
                steps.append(Trial(number, measurement.seconds, elapsed, measurement.build_seconds))

            task = Task.of(self.problem, self.device)
            if self.is_ours:
                search_as_ours(task, self.method, trials, self.seed, measurer, note)
            else:
                search_as_peer(task, self.method.removeprefix(PREFIX), trials, self.seed, measurer, note)
        return SearchRun(tuple(steps))

    @property
    def is_ours(self) -> bool:
        """Whether the strategy is one of ours."""
        return not self.method.startswith(PREFIX)


def search_as_ours(task: Task, strategy: str, trials: int, seed: int, measurer: Measurer, note: NoteTrial) -> None:
    """Search as `seqtune tune` does, without its finals."""

    def progress(step: TuningProgress) -> None:
        note(task.number(step.configuration), step.measurement)

    options = TuningOptions(strategy, seed=seed, on_progress=progress,
                            seeds=partial(seeds_for, required=strategy_entry(strategy).seeds == "required"),
                            slowness=slowness_for)
    with tempfile.TemporaryDirectory(prefix="seqtune-") as folder, Journal(Path(folder) / "trials.sqlite") as journal:
        measuring = MeasuredSearch(task, journal, measurer, options, Budget(trials))
        measuring.run(measuring.search.strategy(), options.batch)


@contextmanager
def compiled_in(folder: Path) -> Iterator[None]:
    """Let PoCL, in worker processes that start in this context, keep compiled kernels in a folder."""
    name = "POCL_CACHE_DIR"
    before = os.environ.get(name)
    folder.mkdir(parents=True, exist_ok=True)
    os.environ[name] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
