"""Live problems: searches that measure on this machine, each stored when it is finished.

Our strategies and Kernel Tuner's search with the same measurer, which checks every result; so all pay the same for
building, checking and timing. Every search has its own worker process and an empty journal. Elapsed time begins before
the worker starts and the search space is built; it includes proposing, building (see ChargedMeasurer), checking and
measuring. Only the time of reading the model is not part of it, as a process that tunes many problems reads it once.
All strategies take turns on one problem with one seed before the next seed begins.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.common.finished import Finished, checksum
from benchmarks.common.report import Row, machine
from benchmarks.search.answers import AnswerContest, compared_answers, is_ours
from benchmarks.search.charged_measurer import BuildSeconds, ChargedMeasurer
from benchmarks.search.comparison import Search
from benchmarks.search.drawn_problems import drawn
from benchmarks.search.live_page import leads_of, moments, rows_of, table
from benchmarks.search.peers import PREFIX, search_as_peer
from benchmarks.search.trials import SearchRun, Trial
from seqtune.cli.arguments import parts
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement
from seqtune.errors import MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.predictor.answering import seeds_for, slowness_for
from seqtune.predictor.checkpoint_folder import digests, find
from seqtune.predictor.predictors import answers_for
from seqtune.tuner.measuring.runner import Measurer, Runner
from seqtune.tuner.measuring.timing import DEFAULTS
from seqtune.tuner.run.local_run import MeasuredSearch
from seqtune.tuner.run.plan import Budget, TuningOptions, TuningProgress
from seqtune.tuner.strategies.table import strategy_entry

NoteTrial = Callable[[int, Measurement], None]  # the number of a configuration and its measurement


@dataclass(frozen=True)
class LiveProblem:
    """A problem on a device of this machine, evaluated after each of the `budgets`, numbers of trials."""

    device: Device
    problem: Problem
    seeds: int
    budgets: tuple[int, ...]
    checkpoint: str = ""  # checksum of the checkpoint that our strategies ask

    @property
    def names(self) -> Sequence[object]:
        """The device, the problem, the budget and the checkpoint."""
        return self.device.name, self.problem.key, self.budgets[-1], self.checkpoint

    def searches(self, methods: Sequence[str]) -> Sequence[Search]:
        """All methods in turn, seed by seed."""
        return [Search(method, seed) for seed, method in product(range(self.seeds), methods)]

    def is_stored(self, search: Search) -> bool:
        """Every search is stored: it measured."""
        return True

    @contextmanager
    def ready(self, finished: Finished) -> Iterator[None]:
        """Let PoCL, in worker processes that start in this context, keep compiled kernels until the contest is over."""
        compiled, name = finished.path(*self.names, "compiled", suffix=""), "POCL_CACHE_DIR"
        before = os.environ.get(name)
        compiled.mkdir(parents=True, exist_ok=True)
        os.environ[name] = str(compiled)
        left = finished.left
        try:
            yield
            if finished.left == left:
                shutil.rmtree(compiled)
        finally:
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before

    def search(self, search: Search, finished: Finished) -> list[list[float | None]]:
        """Search now, with the seconds of all builds of this problem in a file of their own."""
        _load(self.device, self.problem)
        builds = BuildSeconds(finished.path(*self.names, "builds", suffix=".txt"), Task.of(self.problem, self.device))
        steps: list[Trial] = []
        start = time.monotonic()
        with Runner(self.device) as runner:
            runner.start()
            measurer = ChargedMeasurer(runner, builds)

            def note(number: int, measurement: Measurement) -> None:
                elapsed = time.monotonic() - start + measurer.debt
                steps.append(Trial(number, measurement.seconds, elapsed, measurement.build_seconds))

            def measure(numbers: Sequence[int], best: float) -> Iterator[Measurement]:
                measured = measurer.measure(self.problem, [task[number] for number in numbers], DEFAULTS, best)
                return (measurement for _, measurement in measured)

            task, trials, seed = Task.of(self.problem, self.device), self.budgets[-1], search.seed or 0
            if is_ours(search):
                search_as_ours(task, search.method, trials, seed, measurer, note)
            else:
                search_as_peer(task, search.method.removeprefix(PREFIX), trials, seed, measure, note)
        return SearchRun(tuple(steps)).to_json()

    def outcomes(self, results: Mapping[Search, Any], finished: Finished) -> list[Row]:
        """A row for each search, from a contest of the answers of all."""
        runs = {search: SearchRun.from_json(result) for search, result in results.items()}
        methods = dict.fromkeys(search.method for search in runs)
        stored = finished.get((*self.names, "contest", *methods, self.seeds), partial(self._contest, runs))
        if stored is None:
            return []
        contest = AnswerContest.from_json(stored, list(runs))
        return rows_of(self.device, self.problem, runs, contest, self.budgets)

    def _contest(self, runs: Mapping[Search, SearchRun]) -> dict[str, object]:
        with Runner(self.device) as runner:
            task = Task.of(self.problem, self.device)
            return compared_answers(task, runs, moments(runs.values(), self.budgets), runner, runner.close).to_json()


@cache
def _load(device: Device, problem: Problem) -> None:
    """Load the model of the problem's kernels and start a worker: the first time, files are read for seconds."""
    task = Task.of(problem, device)
    seeds_for(task)
    slowness_for(task)
    with Runner(device) as runner:
        list(runner.measure(problem, [task.default], DEFAULTS))


def search_as_ours(task: Task, strategy: str, trials: int, seed: int, measurer: Measurer, note: NoteTrial) -> None:
    """Search as `seqtune tune` does, without its finals."""

    def progress(step: TuningProgress) -> None:
        note(task.number(step.configuration), step.measurement)

    options = TuningOptions(strategy, seed=seed, progress=progress,
                            seeds=partial(seeds_for, required=strategy_entry(strategy).seeds == "required"),
                            slowness=slowness_for)
    with tempfile.TemporaryDirectory(prefix="seqtune-") as folder, Journal(Path(folder) / "trials.sqlite") as journal:
        measuring = MeasuredSearch(task, journal, measurer, options, Budget(trials))
        measuring.run()


def problems(given: argparse.Namespace, methods: Sequence[str]) -> list[LiveProblem]:
    """The drawn problems on the devices in turn. Raises MisuseError."""
    from seqtune.tuner.backends.discovery import find as find_device

    backends = parts(given.devices)
    if not backends or set(backends) - {"llvm", "opencl"}:
        raise MisuseError(f"--devices {','.join(backends)!r:.40}: choose llvm, opencl or both")
    if any("+" in method for method in methods):
        raise MisuseError("+history and +proposals are for recorded problems; a live search knows what `tune` does")
    devices = {backend: find_device(f"{backend}:0") for backend in dict.fromkeys(backends)}
    chosen = drawn([devices[backend] for backend in backends], given.count)
    if len(chosen) < given.count:
        raise MisuseError(f"--count {given.count}: there are only {len(chosen)} such problems")
    checkpoints = {backend: checksum(digests(find(answers_for(backend)))) for backend in devices}
    return [LiveProblem(device, problem, given.seeds, given.budgets, checkpoints[device.backend])
            for device, problem in chosen]


def report(given: argparse.Namespace, rows: Sequence[Row]) -> tuple[dict[str, Any], str, None]:
    """The results as a JSON object, and their table."""
    from seqtune.tuner.backends.discovery import find as find_device

    devices = [find_device(name) for name in dict.fromkeys(row["device"] for row in rows)]
    return {"machine": machine(devices), "budgets": list(given.budgets), "seeds": given.seeds,
            "leads": leads_of(rows, given.budgets), "rows": list(rows)}, table(rows, given.budgets), None
