"""Tuning of the soak test: `python -m benchmarks.robustness.soak_tuning STATE RUN ...`, one process for a whole run.

Every problem that is tuned adds a row to the file of its run: the winner, what the trials cost, how they ended and how
much of the machine other processes had. The process stops after the problem during which its time ended.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.common.program import OneLineParser, run_program
from benchmarks.common.report import Row
from seqtune.data.journal import Journal
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.task import Task
from seqtune.proposals import seeds_for, slowness_for
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.load import LoadMeter
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.tune import Budget, TuningOptions, tune

SEED = 17  # of the drawn problems


def drawn_problems(count: int) -> list[Problem]:
    """Draw convolutions and matrix products in turn, the same for the same number."""
    kinds = [sample_problems("conv2d", count - count // 2, SEED), sample_problems("gemm", count // 2, SEED)]
    return [problem for pair in itertools.zip_longest(*kinds) for problem in pair if problem is not None]


def read_rows(path: Path) -> list[Row]:
    """The rows of a file of the state, if there is one, without a last line that a killed process cut off."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def add_row(path: Path, row: Row) -> None:
    """Add a row to a file of the state."""
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def tune_problem(number: int, problem: Problem, journal: Journal, runner: Runner, trials: int, seed: int) -> Row:
    """Tune a problem as `seqtune tune` does; return its row."""
    counts, load, begin = Counter[str](), LoadMeter(), time.monotonic()

    def note(progress: Any) -> None:
        counts[progress.measurement.status.value] += 1
        counts["samples"] += len(progress.measurement.samples)
        counts["disturbed"] += progress.measurement.disturbed

    result = tune(Task.of(problem, runner.device), journal, runner, Budget(trials=trials), TuningOptions(
        seed=seed, seeds=seeds_for, slowness=slowness_for, on_progress=note))
    for _, measurement in result.finalists:
        counts["final_samples"] += len(measurement.samples)
        counts["final_disturbed"] += measurement.disturbed
    winner, measured = result.configuration, result.measurement
    return {"problem": number, "seed": seed, "trials": result.done, "wall": time.monotonic() - begin,
            "others": load.load().others, "counts": dict(counts), "confidence": result.confidence,
            "seconds": None if measured is None else measured.seconds,
            "winner": None if winner is None else {"kernel": winner.kernel, "settings": dict(winner.settings)}}


def passes(state: Path, name: str, device: Device, problems: list[Problem], trials: int,
           deadline: float) -> Iterator[Row]:
    """Tune all problems until the deadline (seconds of the monotonic clock), each pass with a new journal and seed."""
    with Runner(device) as runner:
        for seed in itertools.count():
            with Journal(state / f"{name}-{seed}.sqlite") as journal:
                for number, problem in enumerate(problems):
                    yield tune_problem(number, problem, journal, runner, trials, seed)
                    if time.monotonic() >= deadline:
                        return


def main() -> None:
    """Run the command line: one pass, or passes for some minutes."""
    parser = OneLineParser(__doc__)
    parser.add_argument("state", type=Path)
    parser.add_argument("run")
    parser.add_argument("--device", required=True)
    parser.add_argument("--problems", type=int, required=True)
    parser.add_argument("--trials", type=int, required=True)
    parser.add_argument("--minutes", type=float, help="one pass without it")
    given: argparse.Namespace = parser.parse_args()
    problems, path = drawn_problems(given.problems), given.state / f"{given.run}.jsonl"
    deadline = float("inf") if given.minutes is None else time.monotonic() + 60 * given.minutes
    rows = passes(given.state, given.run, find(given.device), problems, given.trials, deadline)
    for row in rows if given.minutes is not None else itertools.islice(rows, len(problems)):
        add_row(path, row)


if __name__ == "__main__":
    run_program("soak_tuning", main)
