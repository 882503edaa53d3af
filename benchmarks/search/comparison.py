"""Comparison: all searches of a live comparison and the contests that judge them, stored in a folder one by one."""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
import zlib
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from benchmarks.common.report import Row, write_json
from benchmarks.search.live_contest import AnswerContest, held
from benchmarks.search.live_runs import LARGEST_FILE, LiveRun, compiled_in
from benchmarks.search.live_scores import moments, rows_of
from benchmarks.search.search_run import SearchRun
from seqtune.errors import FormatError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import read_bounded
from seqtune.kernels.problem import Problem

LONGEST_NAME = 240  # characters of a file's name; file systems allow 255 with the suffix


class Comparison:
    """The searches of `problems` with `methods` and `seeds` seeds. What is finished lies in `folder`."""

    def __init__(self, problems: Sequence[tuple[Device, Problem]], methods: Sequence[str], seeds: int, trials: int,
                 folder: Path) -> None:
        self.problems, self.methods, self.seeds, self.trials, self.folder = problems, methods, seeds, trials, folder

    def runs(self, device: Device, problem: Problem) -> list[LiveRun]:
        """The searches of a problem, in their order."""
        return [LiveRun(device, problem, method, seed) for seed, method in product(range(self.seeds), self.methods)]

    def run(self, deadline: float = math.inf) -> None:
        """Make the missing searches and contests, until the deadline (a time of the monotonic clock)."""
        for device, problem in self.problems:
            if time.monotonic() >= deadline:
                return
            compiled = self._path(device, problem, "compiled", suffix="")
            with compiled_in(compiled):
                self._run(device, problem, deadline)
            if self.contest(device, problem) is not None:
                shutil.rmtree(compiled)

    def _run(self, device: Device, problem: Problem, deadline: float) -> None:
        builds = self._path(device, problem, "builds", suffix=".txt")
        for run in self.runs(device, problem):
            if time.monotonic() >= deadline:
                return
            if self.stored(run) is None:
                print(f"{device.name} {problem.brief()}: {run.method}, seed {run.seed}", file=sys.stderr, flush=True)
                write_json(self._run_path(run), run.search(self.trials, builds).to_json())
        finished = self.finished(device, problem)
        if time.monotonic() < deadline and self.contest(device, problem) is None:
            print(f"{device.name} {problem.brief()}: contest", file=sys.stderr, flush=True)
            write_json(self._contest_path(device, problem), held(finished, moments(finished.values(), self.trials))
                       .to_json())

    def stored(self, run: LiveRun) -> SearchRun | None:
        """A finished search, or None if it was not made yet. Raises FormatError."""
        path = self._run_path(run)
        return SearchRun.from_json(_read(path)) if path.is_file() else None

    def finished(self, device: Device, problem: Problem) -> dict[LiveRun, SearchRun]:
        """The finished searches of a problem."""
        stored = {run: self.stored(run) for run in self.runs(device, problem)}
        return {run: searched for run, searched in stored.items() if searched is not None}

    def contest(self, device: Device, problem: Problem) -> AnswerContest | None:
        """The finished contest of a problem, or None if it was not held yet. Raises FormatError."""
        path = self._contest_path(device, problem)
        return AnswerContest.from_json(_read(path), self.runs(device, problem)) if path.is_file() else None

    def left(self) -> int:
        """The number of searches and contests that are not finished."""
        return sum(len(self.runs(*problem)) - len(self.finished(*problem)) + (self.contest(*problem) is None)
                   for problem in self.problems)

    def rows(self) -> list[Row]:
        """A row for each search of the problems that are finished."""
        rows: list[Row] = []
        for problem in self.problems:
            contest = self.contest(*problem)
            if contest is not None:
                rows += rows_of(self.finished(*problem), contest, self.trials)
        return rows

    def _run_path(self, run: LiveRun) -> Path:
        return self._path(run.device, run.problem, run.method, run.seed, self.trials)

    def _contest_path(self, device: Device, problem: Problem) -> Path:
        """The path of a contest; other methods or another number of seeds have a contest of their own."""
        return self._path(device, problem, "contest", *self.methods, self.seeds, self.trials)

    def _path(self, device: Device, problem: Problem, *names: object, suffix: str = ".json") -> Path:
        """The path of what belongs to a problem. A long name ends with a checksum of the rest."""
        name = " ".join(map(str, (device.name, problem.key, *names))).replace(":", "-").replace(" ", "_")
        if len(name) > LONGEST_NAME:
            name = f"{name[:LONGEST_NAME - 9]}_{zlib.crc32(name.encode()):08x}"
        return self.folder / (name + suffix)


def _read(path: Path) -> object:
    try:
        content: object = json.loads(read_bounded(path, LARGEST_FILE))
    except ValueError:
        raise FormatError(f"{path} is not what this program writes; remove it") from None
    return content
