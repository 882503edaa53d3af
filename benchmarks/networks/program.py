"""Whole networks beside their peers: `python -m benchmarks networks [--models A,B] [--threads 1,2] [--state FOLDER]`.

Twenty-one networks with seeded random weights at batch 1: see `benchmarks/networks/models.py`. The peers are PyTorch
(eager, torch.compile, and torch.compile with constant weights and autotuning), ONNX Runtime, OpenVINO and, on CPUs of
AMD, zentorch, each with the same threads and precision and set for low latency: `pip install 'seqtune[networks]'`. A
contestant that is missing, fails or computes a wrong result is named with its reason and left out.

Each network, precision and number of threads is a process of its own, in which all contestants take turns in --rounds
rounds. `--state FOLDER` keeps the outcomes, so that an interrupted run goes on; to measure one again, delete its file.
`--checkpoint` may name one that was trained without this machine's data (`python -m benchmarks machines`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.common.finished import Finished, checksum
from benchmarks.common.page import check_ready, publish, published
from benchmarks.common.program import parser_of, positive, several
from benchmarks.common.progress import say
from benchmarks.common.report import Row, machine, read_json
from seqtune.errors import FormatError, UnavailableError
from seqtune.tuner.measuring.deadline import NETWORK

from .case import TOLERANCES
from .contest import OWN, Assignment, ContestOutcome
from .models import NETWORKS
from .page import PREDICTED, page
from .peers import PEERS
from .rows import row_of, summaries

ROOT = Path(__file__).resolve().parents[2]
LONGEST_SECONDS = 3600.0  # the time limit of one contest


def numbers(text: str) -> list[int]:
    """Parse numbers above 0 with commas."""
    return [positive(part) for part in text.split(",")]


def assignments(given: argparse.Namespace) -> list[Assignment]:
    """The contests of a command line."""
    return [Assignment(model, dtype, threads, given.rounds, tuple(given.peers), given.budget, given.checkpoint)
            for dtype in given.dtype for threads in given.threads for model in given.models]


def outcome_of(assignment: Assignment, finished: Finished, facts: Mapping[str, str],
               python: str = sys.executable) -> ContestOutcome:
    """The outcome of a contest that runs in a process of its own, or the stored one. Raises FormatError.

    A contest that fails leaves out all its contestants, and runs again the next time.
    """
    machine_facts = {name: fact for name, fact in facts.items() if name != "date"}
    names = assignment.name, checksum([asdict(assignment), machine_facts])
    try:
        content = finished.get(names, partial(run_contest, assignment, python))
    except UnavailableError as error:
        say(f"{assignment.name}: {error}")
        left_out = dict.fromkeys((*assignment.peers, *OWN), str(error))
        return ContestOutcome(assignment.model, assignment.dtype, assignment.threads, left_out=left_out)
    try:
        return ContestOutcome(**content)
    except TypeError as error:
        path = finished.path(*names)
        raise FormatError(f"{path} is no outcome of a contest: {error!r:.100}; delete it to measure again") from None


def run_contest(assignment: Assignment, python: str) -> Row:
    """Run a contest in a process of its own; return its outcome as JSON. Raises UnavailableError if it fails."""
    with TemporaryDirectory() as folder:
        written = Path(folder) / "outcome.json"
        command = [python, "-m", "benchmarks.networks.contest", json.dumps(asdict(assignment)), str(written)]
        try:
            done = subprocess.run(command, cwd=ROOT, timeout=LONGEST_SECONDS, check=False, env={
                "TORCHINDUCTOR_CACHE_DIR": folder,  # a fresh one: otherwise an earlier run makes Inductor ready sooner
                **os.environ, "OMP_NUM_THREADS": str(assignment.threads)})
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"the contest was not done after {LONGEST_SECONDS:.0f} s") from None
        if done.returncode:
            raise UnavailableError(f"the process of the contest failed with status {done.returncode}")
        return dict(read_json(written))


def run(given: argparse.Namespace, finished: Finished) -> None:
    """Run the contests and write the results."""
    from seqtune.tuner.backends.discovery import find

    facts = machine([find("llvm:0")], pytorch=True)
    rows: list[Row] = [row_of(outcome_of(assignment, finished, facts)) for assignment in assignments(given)]
    results = {"machine": facts, "rows": [*rows, *summaries(rows)]}
    before = published(given.out, "networks")
    if PREDICTED in before:
        results[PREDICTED] = before[PREDICTED]
    written = page(results)
    print(json.dumps(results, allow_nan=False) if given.json else f"{written.tables}\n\n{written.measured}")
    publish(given.out, page, results)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = parser_of(__doc__)
    names = [peer.name for peer in PEERS]
    parser.add_argument("--models", type=several(list(NETWORKS)), default=list(NETWORKS), metavar="A,B",
                        help=f"networks: {', '.join(NETWORKS)}")
    parser.add_argument("--dtype", type=several(list(TOLERANCES)), default=["fp32"], metavar="fp32,bf16")
    parser.add_argument("--threads", type=numbers, default=[1, 2], metavar="1,2")
    parser.add_argument("--rounds", type=positive, default=20, help="samples of each contestant")
    parser.add_argument("--peers", type=several(names), default=names, metavar="A,B", help=f"of {', '.join(names)}")
    parser.add_argument("--budget", type=float, default=NETWORK, help="seconds for comparing one network of ours")
    parser.add_argument("--checkpoint", default="default")
    parser.add_argument("--state", type=Path, metavar="FOLDER", help="keeps the outcomes; a second run goes on")
    given = parser.parse_args(arguments)
    check_ready(given.out)
    with TemporaryDirectory() as folder:
        run(given, Finished(given.state or Path(folder)))
