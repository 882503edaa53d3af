"""Live runs: the searches of a comparison, one after the other, each stored when it is finished.

Every run has its own worker process, an empty journal and an empty cache of compiled kernels. Elapsed time begins before
the worker starts and the search space is built; it includes proposing, building, checking and measuring. All strategies
take turns on one problem with one seed before the next seed begins.
"""

from __future__ import annotations

import json
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
from benchmarks.common.report import write_json
from benchmarks.search.search_run import SearchRun, Trial
from seqtune.data.journal import Journal
from seqtune.data.record import Measurement
from seqtune.errors import FormatError
from seqtune.kernels.device import Device
from seqtune.kernels.files import read_bounded
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.proposals import seeds_for
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.strategies.table import strategy_entry
from seqtune.tuner.tune import Budget, TuningOptions, TuningProgress, TuningRun

LARGEST_FILE = 10_000_000  # bytes of a stored run
NoteTrial = Callable[[int, Measurement], None]  # the number of a configuration and its measurement


@dataclass(frozen=True, slots=True)
class LiveRun:
    """One search of the comparison: who searches what."""

    device: Device
    problem: Problem
    method: str  # a strategy of ours, or PREFIX and one of Kernel Tuner's
    seed: int

    def path(self, folder: Path, trials: int) -> Path:
        """The file that stores the finished run."""
        name = f"{self.device.name} {self.problem.key} {self.method} {self.seed} {trials}"
        return folder / (name.replace(":", "-").replace(" ", "_") + ".json")

    def search(self, trials: int) -> SearchRun:
        """Search now."""
        steps: list[Trial] = []
        with empty_cache():
            start = time.monotonic()

            def note(number: int, measurement: Measurement) -> None:
                steps.append(Trial(number, measurement.seconds, time.monotonic() - start))

            with Runner(self.device) as runner:
                task = Task.of(self.problem, self.device)
                if self.method.startswith(PREFIX):
                    search_as_peer(task, self.method.removeprefix(PREFIX), trials, self.seed, runner, note)
                else:
                    search_as_ours(task, self.method, trials, self.seed, runner, note)
        return SearchRun(tuple(steps))


def search_as_ours(task: Task, strategy: str, trials: int, seed: int, runner: Runner, note: NoteTrial) -> None:
    """Search as `seqtune tune` does, without its finals."""

    def progress(step: TuningProgress) -> None:
        note(task.number(step.configuration), step.measurement)

    options = TuningOptions(strategy, seed=seed, on_progress=progress,
                            seeds=partial(seeds_for, required=strategy_entry(strategy).seeds == "required"))
    with tempfile.TemporaryDirectory(prefix="seqtune-") as folder, Journal(Path(folder) / "trials.sqlite") as journal:
        run = TuningRun(task, journal, runner, options)
        run.search(run.strategy(trials), Budget(trials), options.batch, options.on_progress)


def stored(run: LiveRun, folder: Path, trials: int) -> SearchRun | None:
    """The stored trials of a run, or None if it was not made yet. Raises FormatError."""
    path = run.path(folder, trials)
    if not path.is_file():
        return None
    try:
        return SearchRun.from_json(json.loads(read_bounded(path, LARGEST_FILE)))
    except (ValueError, FormatError):
        raise FormatError(f"{path} does not hold the trials of a search; remove it") from None


def store(run: LiveRun, folder: Path, trials: int, searched: SearchRun) -> None:
    """Store the trials of a run."""
    write_json(run.path(folder, trials), searched.to_json())


@contextmanager
def empty_cache() -> Iterator[None]:
    """Give PoCL, in worker processes that start in this context, an empty cache of compiled kernels."""
    name = "POCL_CACHE_DIR"
    before = os.environ.get(name)
    with tempfile.TemporaryDirectory(prefix="seqtune-pocl-") as folder:
        os.environ[name] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before
