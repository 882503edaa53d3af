"""Compare the two instruments on one machine: `python -m benchmarks agreement --journal FILE --out docs`.

The same problems are judged twice. First they are measured into a data set, in a contest of all their configurations;
then the methods are judged by look-up, as by `seqtune evaluate DATA`. Second they are judged by `seqtune evaluate
--live`, in contests of their own. The two shares of a method should differ by less than 0.01.

The journal keeps the measurements, and FILE.live.json the outcomes of the live part, so that the program can be ended
after `--seconds` (or by Ctrl-C) and run again until it is done. Nothing else should run at the same time.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common.page import Page, Results, check_ready, measured_on, publish
from benchmarks.common.program import parser_of
from benchmarks.common.report import Row, machine, markdown
from seqtune.kernels.files import write_whole

if TYPE_CHECKING:
    from seqtune.data.journal import Journal
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.problem import Problem
    from seqtune.predictor.times.model import TimesModel
    from seqtune.predictor.times.shares import Outcome

METHODS = ("seqtune", "transformer", "trees", "random", "default")  # none of them is fitted to the new data set
COUNTS = (0, 3, 5)
PROBLEMS = (  # of 120 to 210 configurations, the best of which takes 50 us or more: two minutes each
    "gemm m=130 n=2080 k=141 trans_b=yes", "conv2d c=582 h=7 w=7 k=480 r=1 s=1",
    "conv2d c=160 h=21 w=21 k=4 r=5 s=5 pad_h=2 pad_w=2", "conv2d c=19 h=64 w=68 k=512 r=1 s=1",
    "conv2d c=1024 h=38 w=38 k=1024 r=3 s=3 stride_h=2 stride_w=2 groups=1024",
    "conv2d c=144 h=75 w=75 k=144 r=3 s=3 pad_h=1 pad_w=1 groups=144",
    "conv2d c=672 h=18 w=18 k=64 r=3 s=3 pad_h=1 pad_w=1 groups=4", "conv2d c=96 h=98 w=98 k=40 r=1 s=1 groups=8")


def collect(problem: Problem, device: Device, journal: Journal) -> None:
    """Measure a problem completely, in a contest of all its configurations."""
    from seqtune.kernels.task import Task
    from seqtune.tuner.measuring.contest import hold_contest, store_contest
    from seqtune.tuner.measuring.runner import Runner

    task = Task.of(problem, device)
    with Runner(device) as runner:
        contest = hold_contest(runner, problem, list(task), renew=runner.close)
    store_contest(journal, problem, device, {kernel.name: kernel.version for kernel in task.kernels}, contest)


def recorded_outcomes(journal: Journal, device: Device, problems: Sequence[Problem],
                      checkpoint: TimesModel) -> list[Outcome]:
    """Judge the methods by look-up."""
    from seqtune.data.dataset import Dataset
    from seqtune.predictor.times.evaluation import outcomes

    data = Dataset.from_journal(journal, held_out=[problem.key for problem in problems]).on(device.key)
    return outcomes(data, checkpoint, METHODS, COUNTS)


def live_outcome(journal: Journal, device: Device, problem: Problem, checkpoint: TimesModel) -> Outcome:
    """Judge the methods on one problem by a contest of its own."""
    from seqtune.data.dataset import Dataset
    from seqtune.predictor.times.evaluation import outcomes
    from seqtune.predictor.times.live import LiveContest

    data = Dataset.from_journal(journal, held_out=[problem.key]).on(device.key)
    with LiveContest(device, lambda step: print(step, file=sys.stderr, flush=True)) as measure:
        (outcome,) = outcomes(data, checkpoint, METHODS, COUNTS, measure=measure, queries=[(problem, device)])
    return outcome


def compare(recorded: Sequence[Outcome], live: Sequence[Outcome]) -> list[Row]:
    """Make a row for each method and number of measured proposals: the share by both, and their difference.

    The 95 % interval of the difference is a bootstrap of the problems, the same for both instruments.
    """
    import numpy as np

    from seqtune.predictor.times.shares import DRAWS, bootstrap, rows

    by_problem = {outcome.problem: outcome for outcome in live}
    paired = [by_problem[outcome.problem] for outcome in recorded]
    judged_live = {(row.method, row.measured): row for row in rows(paired)}
    table: list[Row] = []
    for row in rows(recorded):
        key = row.method, row.measured
        ours, theirs = (np.array([outcome.log_shares[key] for outcome in outcomes]) for outcomes in (paired, recorded))
        low, high = bootstrap(ours, theirs, DRAWS, 0)
        table.append({"method": row.method, "measured": row.measured, "problems": row.problems, "recorded": row.share,
                      "live": judged_live[key].share, "difference": judged_live[key].share - row.share,
                      "low": low, "high": high, "recorded_ceiling": row.ceiling,
                      "live_ceiling": judged_live[key].ceiling})
    return table


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    judged = [row for row in rows if row["method"] not in ("random", "default")]
    first = max(abs(row["difference"]) for row in judged if row["measured"] == 0)
    widest = max(abs(row["difference"]) for row in judged)
    lines = [[row["method"], str(row["measured"]), f"{row['recorded']:.3f}", f"{row['live']:.3f}",
              f"{row['difference']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]"] for row in rows]
    ceilings = ", ".join(f"{row[name]:.3f} ({label})" for row in rows[:1] for name, label in (
        ("recorded_ceiling", "recorded"), ("live_ceiling", "live")) if row[name] is not None)
    return Page(
        "agreement", "Two instruments, one answer",
        f"Judged by a data set that was measured on the same machine and judged live, the shares of the checkpoint and "
        f"of its parts differ by at most {first:.3f} at the first proposal and {widest:.3f} at all "
        f"({rows[0]['problems']} problems on {results['device']}).",
        "python -m benchmarks agreement --journal agreement.sqlite --out docs",
        markdown(["method", "measured", "recorded", "live", "difference"], lines), measured_on(results),
        f"Shares of the best known speed, as geometric means over the problems; in brackets 95 % intervals, by a "
        f"bootstrap of the problems. Re-test ceilings: {ceilings}.",
        ("The contests of the two share no measurement. Both know the fastest recorded configurations.",
         "Configurations that take more than three times the least time have only the time of a quick look, in both. "
         "Live, `random` is estimated from 100 drawn configurations, by look-up from all.",
         "The best kernel of each problem takes about 50 us or longer: shorter ones agree less well, because waking "
         "the second thread is much of their time."))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--journal", type=Path, required=True, help="keeps the measurements")
    parser.add_argument("--device", default="llvm:0")
    parser.add_argument("--checkpoint", default="default")
    parser.add_argument("--problems", default=None, help="a named set or a file; default: eight with small spaces")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after the problem that exceeds this")
    given = parser.parse_args(arguments)
    check_ready(given.out)

    from seqtune.data.journal import Journal
    from seqtune.kernels.problem_sets.parse import parse_problem, problem_set
    from seqtune.predictor.times.model import TimesModel
    from seqtune.predictor.times.shares import Outcome
    from seqtune.predictor.translator.threads import one_thread
    from seqtune.tuner.backends.discovery import find

    until = time.monotonic() + given.seconds
    device, checkpoint = find(given.device), TimesModel.load(given.checkpoint)
    problems = list(map(parse_problem, PROBLEMS) if given.problems is None else problem_set(given.problems))
    state = given.journal.with_name(given.journal.name + ".live.json")
    stored = map(Outcome.from_json, json.loads(state.read_text())) if state.exists() else ()
    live = {outcome.problem: outcome for outcome in stored}
    with one_thread(), Journal(given.journal) as journal:
        journal.add_device(device)
        for number, problem in enumerate(problems, start=1):
            print(f"problem {number} of {len(problems)}: {problem.brief()}", file=sys.stderr, flush=True)
            if not any(journal.records(problem, device.key, run="contest")):
                collect(problem, device, journal)
            if time.monotonic() > until:
                break
            if problem.key not in live:
                live[problem.key] = live_outcome(journal, device, problem, checkpoint)
                write_whole(state, json.dumps([outcome.to_json() for outcome in live.values()]))
            if time.monotonic() > until:
                break
        done = [problem for problem in problems if problem.key in live]
        if len(done) < len(problems):
            print(f"{len(done)} of {len(problems)} problems are done; run the program again", file=sys.stderr)
        if not done:
            return
        recorded = recorded_outcomes(journal, device, done, checkpoint)
    rows = compare(recorded, [live[problem.key] for problem in done])
    results = {"machine": machine([device]), "device": device.name, "rows": rows}
    if len(done) == len(problems):
        publish(given.out, page, results)
    print(json.dumps(results) if given.json else page(results).tables)
