"""Measure beside other work: `python -m benchmarks measuring [--device DEVICE] [--runs N] [--busy N]`.

The first table has configurations that are compared with themselves: a device runs one as the default and as all five
candidates of a verification, so every win is false. A lead of 5 % is planted by dividing the samples of one; a miss is
a comparison in which it does not win. The second table has commands with budgets, and the time that each took relative
to its budget. `--busy` processes compute meanwhile. What does not depend on this machine is tested on simulated rounds
and on a simulated host (tests/tuner/measuring).
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import seqtune
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.report import Row, markdown
from benchmarks.speed.busy_processes import BusyProcesses
from seqtune.data.record import Status
from seqtune.errors import SeqtuneError
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.load import LoadMeter
from seqtune.tuner.measuring.batches import compare_batch
from seqtune.tuner.measuring.comparison import faster_than
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import DEFAULTS
from seqtune.tuner.measuring.verification import RULE

PRODUCTS = ((64, 64, 64), (128, 256, 128), (256, 256, 256))  # m, n, k of what is compared with itself: 5 us to 1 ms
ROUNDS, CANDIDATES = 8, 5  # rounds of a batch; candidates of a comparison
LEAD = 0.05  # the planted lead of the candidate that should win
STEM = "conv2d n=64 c=3 h=224 w=224 k=64 r=7 s=7 pad=3 stride=2"  # its reference alone takes a second
SMALL = "gemm m=64 n=64 k=64"
LAYER = "conv2d n=1 c=64 h=56 w=56 k=64 r=3 s=3 pad=1"
Seconds = NDArray[np.float64]  # (copy, round)


def itself(device: str, runs: int) -> Row:
    """Compare configurations with themselves: the shares of false wins, of misses and of heavy load."""
    equal, loads = [], []
    for seconds, heavy in _sessions(device, runs):
        equal += [np.roll(seconds, turn, axis=0) for turn in range(1 + CANDIDATES)]  # each copy was the default once
        loads.append(heavy)
    planted = np.array([1.0, 1 + LEAD, *[1.0] * (CANDIDATES - 1)])[:, None]
    return {"device": device, "comparisons": len(equal), "heavy_load": float(np.mean(loads)),
            "false_wins": float(np.mean([bool(_winners(seconds)) for seconds in equal])),
            "misses": float(np.mean([_winners(seconds / planted)[:1] != [1] for seconds in equal]))}


def _winners(seconds: Seconds) -> list[int]:
    """The candidates that are faster than number 0, the fastest first."""
    return faster_than(0, dict(enumerate(seconds.tolist())), RULE)


def _sessions(device: str, runs: int) -> Iterator[tuple[Seconds, bool]]:
    """The seconds of a configuration that runs six times in each round; and whether under heavy load.

    Safe defaults take turns with configurations drawn at random. What fails is passed over.
    """
    generator = np.random.default_rng(0)
    tasks = [Task.of(Problem.make("gemm", m=m, n=n, k=k), find(device)) for m, n, k in PRODUCTS]
    with Runner(tasks[0].device) as runner:
        for run in range(runs):
            task, meter = tasks[run % len(tasks)], LoadMeter()
            configuration = task[int(generator.integers(len(task)))] if run % 2 else task.default
            batches = []
            for batch in range(RULE.batches):
                measured = compare_batch(runner, task.problem, [configuration] * (1 + CANDIDATES), ROUNDS, DEFAULTS,
                                         run * RULE.batches + batch)
                if any(measurement.status is not Status.CORRECT for measurement in measured):
                    break
                batches.append([measurement.samples for measurement in measured])
            else:
                yield np.concatenate(batches, axis=1), meter.load().heavy


def budgets(journal: Path) -> list[Row]:
    """A row for each command with a budget."""
    seqtune.predict(SMALL)  # loads the checkpoint

    def verify(problem: str, seconds: float) -> str:
        answer = seqtune.predict(problem, verify=True, seconds=seconds, cache=False, journal=journal)
        return answer.unverified or "verified"

    def tune(problem: str, seconds: float) -> str:
        return f"{seqtune.tune(problem, seconds=seconds, journal=journal).results[0].trials} trials"

    def calibrate(_: str, seconds: float) -> str:
        return f"{seqtune.calibrate(seconds=seconds, journal=journal).probes} probes"

    return [timed(name, problem, seconds, command) for name, command, problem, seconds in (
        ("predict --verify", verify, STEM, 3.0), ("predict --verify", verify, LAYER, 3.0),
        ("predict --verify", verify, LAYER, 10.0), ("predict --verify", verify, SMALL, 3.0),
        ("tune", tune, LAYER, 10.0), ("tune", tune, SMALL, 3.0), ("calibrate", calibrate, "", 20.0))]


def timed(name: str, problem: str, seconds: float, command: Callable[[str, float], str]) -> Row:
    """The row of one command; what fails has its error."""
    began = time.monotonic()
    try:
        outcome = command(problem, seconds)
    except SeqtuneError as error:
        outcome = str(error)
    elapsed = time.monotonic() - began
    return {"command": f"{name} {problem}".strip(), "budget": seconds, "elapsed": elapsed, "ratio": elapsed / seconds,
            "outcome": outcome}


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    return markdown(list(rows[0]), [[f"{value:.3f}" if isinstance(value, float) else str(value)
                                     for value in row.values()] for row in rows])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--device", default="llvm:0", help="device on which configurations are compared")
    parser.add_argument("--runs", type=positive, default=180, help="measurements of a configuration beside itself")
    parser.add_argument("--busy", type=positive, default=2, help="busy processes beside the measurements")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    given = parser.parse_args(arguments)
    find(given.device)  # raises DeviceError before anything is measured
    with tempfile.TemporaryDirectory() as folder, BusyProcesses(given.busy) as others:
        others.want(given.busy)
        results = {"itself": [itself(given.device, given.runs)], "budgets": budgets(Path(folder) / "journal.sqlite")}
    print(json.dumps(results) if given.json else "\n\n".join(map(table, results.values())))
