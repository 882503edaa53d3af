"""Tune for an hour while every CPU is busy with other work: `python -m benchmarks.soak --minutes 60 --out docs`.

Four phases; each writes into the folder of --state and goes on there after it was stopped:
`quiet` tunes the drawn problems on the quiet machine, `again` does so once more with the same seed, to show how far two
quiet runs agree. `loaded` starts a busy process for each CPU and tunes the same problems in one process and with one
worker until the time is over: the first pass with the seed of the quiet run, every further one with a new journal and
a new seed. It looks at the memory every ten seconds. `contest` measures the winners of a problem together, on the
quiet machine. Without --phase, all follow one another. --seconds ends a contest early, to go on later.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from benchmarks.common.page import add_out, check_ready, publish
from benchmarks.common.program import OneLineParser, positive, run_program
from benchmarks.common.report import Row, machine
from benchmarks.robustness.soak_contest import hold, winner_of
from benchmarks.robustness.soak_load import watched
from benchmarks.robustness.soak_page import draw, page, summary
from benchmarks.robustness.soak_tuning import add_row, drawn_problems, read_rows
from benchmarks.speed.busy_processes import BusyProcesses
from seqtune.errors import MisuseError, SeqtuneError
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.measuring.runner import Runner

PHASES = ("quiet", "again", "loaded", "contest")
RUNS = PHASES[:3]


def tune_in_process(given: argparse.Namespace, run: str) -> None:
    """Tune in a process of its own, unless the state holds the run. Raises SeqtuneError if the process fails."""
    path, memory = given.state / f"{run}.jsonl", given.state / f"{run}-memory.jsonl"
    rows = read_rows(memory)
    if rows and rows[-1].get("status") == 0:
        return
    for stale in (memory, path, *given.state.glob(f"{run}-*.sqlite*")):
        stale.unlink(missing_ok=True)  # a run that was stopped says nothing about the memory of a whole one
    command = [sys.executable, "-m", "benchmarks.robustness.soak_tuning", str(given.state), run, "--device",
               given.device, "--problems", str(given.problems), "--trials", str(given.trials)]
    if run == "loaded":
        command += ["--minutes", str(given.minutes)]
    for row in watched(command):
        add_row(memory, row)
    if row["status"]:
        raise SeqtuneError(f"the {run} run ended with {row['status']} after {row['at']:.0f} s: {row['error']}")


def hold_contests(given: argparse.Namespace) -> bool:
    """Measure the winners of every problem that the state holds no contest of; whether all are measured now."""
    path, problems = given.state / "contest.jsonl", drawn_problems(given.problems)
    done, begin = {row["problem"] for row in read_rows(path)}, time.monotonic()
    rows = [row for run in RUNS for row in read_rows(given.state / f"{run}.jsonl")]
    with Runner(find(given.device)) as runner:
        for number, problem in enumerate(problems):
            if number in done:
                continue
            if time.monotonic() - begin > given.seconds:
                return False
            distinct = dict.fromkeys(winner for row in rows if row["problem"] == number
                                     and (winner := winner_of(row)) is not None)
            times = hold(runner, problem, list(distinct))
            add_row(path, {"problem": number, "text": problem.brief(), "times": times, "winners": [
                {"kernel": winner.kernel, "settings": dict(winner.settings)} for winner in distinct]})
    return True


def results_of(given: argparse.Namespace) -> Row:
    """The content of the JSON file, from the files of the state."""
    read = {name: read_rows(given.state / f"{name}.jsonl") for name in (*RUNS, "contest", "loaded-memory")}
    return {"machine": machine([find(given.device)]), "device": given.device, "problems": given.problems,
            "trials": given.trials, **summary(read)}


def main() -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--state", type=Path, required=True, metavar="FOLDER", help="keeps what is done")
    parser.add_argument("--phase", choices=PHASES, help="only this one")
    parser.add_argument("--device", default="llvm:0")
    parser.add_argument("--problems", type=positive, default=60)
    parser.add_argument("--trials", type=positive, default=60, help="of a problem")
    parser.add_argument("--minutes", type=float, default=60.0, help="of the loaded run")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no contest begins")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    add_out(parser)
    given = parser.parse_args()
    if not 0 < given.minutes < 10_000:
        raise MisuseError(f"--minutes {given.minutes:g} is not between 0 and 10000")
    check_ready(given.out)
    given.state.mkdir(parents=True, exist_ok=True)
    _check_options(given)
    phases, complete = PHASES if given.phase is None else (given.phase,), False
    for phase in phases:
        if phase == "contest":
            complete = hold_contests(given)
        elif phase == "loaded":
            with BusyProcesses(os.cpu_count() or 1):
                tune_in_process(given, phase)
        else:
            tune_in_process(given, phase)
    if not complete:
        print(f"soak: run again with --state {given.state} for the contests that are left" if "contest" in phases
              else f"soak: {given.phase} is complete", file=sys.stderr)
        return
    results = results_of(given)
    print(json.dumps(results) if given.json else page(results).tables)
    publish(given.out, page, results, lambda path: draw(path, results))


def _check_options(given: argparse.Namespace) -> None:
    """Check that the state is of the same problems, trials and device. Raises MisuseError."""
    path = given.state / "options.json"
    options = {"device": given.device, "problems": given.problems, "trials": given.trials}
    if not path.exists():
        path.write_text(json.dumps(options))
    elif json.loads(path.read_text()) != options:
        raise MisuseError(f"{given.state} holds a soak test with other options: {path.read_text():.200}")


if __name__ == "__main__":
    run_program("soak", main)
