"""Measuring on a shared host: how long it waits, whether budgets hold, and what it finds.

`python -m benchmarks shared_host` searches recorded problems on a simulated host whose rate halves in random stretches
of 0.5 to 20 seconds, and on the same host when it stays quick. Its table has the share of the time that was waited, and
the true times of the winners relative to those of the quiet host. With --live, commands with budgets run on this
machine beside busy processes, and the table has the time that each took relative to its budget.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

import seqtune
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.report import Row, markdown
from benchmarks.robustness.simulated_host import SimulatedHost, SimulatedMeasurer
from benchmarks.speed.busy_processes import BusyProcesses
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.data.journal import Journal
from seqtune.errors import SeqtuneError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.strategy_replay import recorded_spaces
from seqtune.tuner.simulation import RecordedSpace
from seqtune.tuner.tune import Budget, TuningOptions, TuningRun

WITHIN = 1.03  # times the winner of the quiet host that count as equal
STEM = "conv2d n=64 c=3 h=224 w=224 k=64 r=7 s=7 pad=3 stride=2"  # its reference alone takes a second
SMALL = "gemm m=64 n=64 k=64"
LAYER = "conv2d n=1 c=64 h=56 w=56 k=64 r=3 s=3 pad=1"


def _time_of(recorded: RecordedSpace, problem: Problem, configuration: Configuration) -> float:
    return float(recorded.measured.time(configuration))


def winners(spaces: Sequence[RecordedSpace], host: SimulatedHost, trials: int) -> tuple[list[float], float]:
    """The true seconds of the winner of each search, one after the other on one host, and the seconds waited."""
    measurer: SimulatedMeasurer | None = None
    seconds: list[float] = []
    for recorded in spaces:
        later = SimulatedMeasurer(host, recorded.task.device, partial(_time_of, recorded))
        if measurer is not None:  # the same worker goes on
            later.take_over(measurer)
        measurer = later
        with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "journal.sqlite") as journal:
            run = TuningRun(recorded.task, journal, measurer, TuningOptions())
            run.search(run.strategy(trials), Budget(trials), 16, lambda progress: None)
            best = run.result().configuration
        seconds.append(math.inf if best is None else float(recorded.measured.time(best)))
    return seconds, 0.0 if measurer is None else measurer.pace.patience.waited


def simulated(given: argparse.Namespace) -> list[Row]:
    """A row for each simulated host."""
    spaces = recorded_spaces(read_dataset(None), complete=True)
    chosen = [spaces[index] for index in np.random.default_rng(given.seed).choice(
        len(spaces), min(given.problems, len(spaces)), replace=False)]
    quiet = SimulatedHost(0, steady=True)
    reference, _ = winners(chosen, quiet, given.trials)
    rows: list[Row] = []
    for seed in range(given.hosts):
        host = SimulatedHost(seed)
        found, waited = winners(chosen, host, given.trials)
        ratios = np.array(found) / np.array(reference)
        rows.append({"host": seed, "problems": len(chosen), "seconds": host.now, "quiet_seconds": quiet.now,
                     "waited_share": waited / host.now, "mean_ratio": float(np.exp(np.log(ratios).mean())),
                     "worst_ratio": float(ratios.max()), "within": int((ratios <= WITHIN).sum())})
    return rows


def live(given: argparse.Namespace) -> list[Row]:
    """A row for each command with a budget, beside busy processes."""
    with tempfile.TemporaryDirectory() as folder, BusyProcesses(given.busy) as others:
        journal = Path(folder) / "journal.sqlite"
        seqtune.predict(SMALL)  # loads the checkpoint
        others.want(given.busy)

        def verify(problem: str, seconds: float) -> str:
            answer = seqtune.predict(problem, verify=True, seconds=seconds, cache=False, journal=journal)
            return answer.unverified or "verified"

        def tune(problem: str, seconds: float) -> str:
            return f"{seqtune.tune(problem, seconds=seconds, journal=journal).results[0].trials} trials"

        def calibrate(seconds: float) -> str:
            return f"{seqtune.calibrate(seconds=seconds, journal=journal).probes} probes"

        verifications = [timed(f"predict {problem} --verify", seconds, partial(verify, problem))
                         for problem, seconds in ((STEM, 3.0), (LAYER, 3.0), (LAYER, 10.0), (SMALL, 3.0))]
        searches = [timed(f"tune {problem}", seconds, partial(tune, problem))
                    for problem, seconds in ((LAYER, 10.0), (SMALL, 3.0))]
        return [*verifications, *searches, timed("calibrate", 20.0, calibrate)]


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    return markdown(list(rows[0]), [[f"{value:.3f}" if isinstance(value, float) else str(value)
                                     for value in row.values()] for row in rows])


def timed(name: str, seconds: float, run: Callable[[float], str]) -> Row:
    """The row of one command."""
    began = time.monotonic()
    try:
        outcome = run(seconds)
    except SeqtuneError as error:
        outcome = str(error)
    elapsed = time.monotonic() - began
    return {"command": name, "budget": seconds, "elapsed": elapsed, "ratio": elapsed / seconds, "outcome": outcome}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--problems", type=positive, default=20)
    parser.add_argument("--trials", type=positive, default=60, help="of a problem")
    parser.add_argument("--hosts", type=positive, default=4, help="simulated, each with its own stretches")
    parser.add_argument("--seed", type=int, default=1, help="of the draw of problems")
    parser.add_argument("--live", action="store_true", help="run commands on this machine instead")
    parser.add_argument("--busy", type=int, default=2, help="with --live: busy processes beside the commands")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    given = parser.parse_args(arguments)
    rows = live(given) if given.live else simulated(given)
    print(json.dumps({"rows": rows}) if given.json else table(rows))
