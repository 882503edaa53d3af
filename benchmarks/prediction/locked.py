"""The locked test set, evaluated live on this machine: `python -m benchmarks locked --out docs`.

Every locked problem (`benchmarks.data.locked_problems`) is first searched: completely if its space has at most
--trials configurations, else by a local search of that many. Then all that any method proposes, the fastest eight of
the search, the safe default and random configurations are compared (`seqtune.tuner.measuring.compared_times`): each has
one time for all methods, the median over three builds. Shares are shown by kind of problem, with 95 % intervals and the
ceiling: an oracle whose choice is measured again.

The set is for the last look before a release, not for choices: the results file keeps a line for each time that it was
looked at. The search is in a journal and every outcome in a file next to it, so that --minutes can end a call and the
next one goes on. Nothing else should run at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common.evaluation import ALL, BEST_OF, COUNTS, by_columns, ceiling_cell, share_cell, share_cells
from benchmarks.common.finished import Finished, checksum
from benchmarks.common.page import Page, Results, add_out, check_ready, measured_on, publish, published
from benchmarks.common.program import OneLineParser, minutes, positive
from benchmarks.common.progress import say
from benchmarks.common.report import Row, machine, markdown, today
from benchmarks.data.locked_problems import LOCKED_VERSION, locked_problems, traits_of
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.kernels.problem_sets.kinds import KINDS, kind_of
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.predictor.learning.tasks import shares
from seqtune.predictor.learning.tasks.shares import OURS, Outcome
from seqtune.tuner.measuring.deadline import Deadline

from .live_evaluation import live_outcomes

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device
    from seqtune.predictor.predictors import Predictor

METHODS = ("seqtune", "transformer", "trees", "nearest", "fixed", "default", "random")


def fitted_methods(checkpoint: str, device: Device) -> dict[str, Predictor]:
    """The methods; the baselines learn from devices of the same name only."""
    from seqtune.data.measured_tasks import measured_tasks
    from seqtune.predictor.checkpoint import Checkpoint
    from seqtune.predictor.learning.tasks.evaluation import fitted

    data = read_dataset(None)
    training = replace(data, rows=data.rows[data.rows["device"].isin(data.named(device.name))])
    return fitted(measured_tasks(training, held_out=False), Checkpoint.load(checkpoint), METHODS, say)


def rows_of(outcomes: Iterable[Outcome]) -> list[Row]:
    """The rows over all problems, by kind and by trait; every one has a 95 % interval and the ceiling."""
    by_group: dict[str, list[Outcome]] = {name: [] for name in (ALL, *KINDS)}
    for outcome in outcomes:
        problem = parse_problem(outcome.problem)
        for name in (ALL, kind_of(problem), *traits_of(problem)):
            by_group.setdefault(name, []).append(replace(outcome, device=name))
    return [{"group": row.device, **{name: value for name, value in row.to_json().items() if name != "device"}}
            for part in by_group.values() if part for row in shares.rows(part)]


def table(rows: Sequence[Row]) -> str:
    """Make the first table: each method over all problems."""
    cells = by_columns(rows, "group", "method")
    lines = [[f"**{method}**" if method == OURS else method, *share_cells(cells[ALL, method])] for method in METHODS]
    lines.append(["ceiling (re-tested oracle)", *([ceiling_cell(cells[ALL, OURS][0])] * len(COUNTS))])
    return markdown(["method", *BEST_OF], lines)


def kinds_table(rows: Sequence[Row]) -> str:
    """Make the second table: seqtune by kind and trait of problem, and the first proposals of its parts."""
    cells = by_columns(rows, "group", "method")
    lines = []
    for group in dict.fromkeys(row["group"] for row in rows):
        own = cells[group, OURS]
        lines.append([group, str(own[0]["problems"]), share_cell(own[0]),
                      *(f"{own[count]['share']:.3f}" for count in COUNTS[1:]),
                      *(f"{cells[group, method][0]['share']:.3f}" for method in ("transformer", "trees", "default")),
                      ceiling_cell(own[0])])
    return markdown(["problems", "number", *BEST_OF, "transformer alone", "trees alone", "default", "ceiling"], lines)


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    cells = by_columns(rows, "group", "method")
    ours = cells[ALL, OURS]
    alone = [f"the {method} alone reaches {share_cell(cells[ALL, method][0])}" for method in ("transformer", "trees")]
    part = f" --problems {results['every']}" if results["every"] > 1 else ""
    looks = "; ".join(f"{look['date']} ({look['device']}, seqtune {look['seqtune']}, checkpoint {look['checkpoint']})"
                      for look in results["looked"])
    return Page(
        "locked", "The locked test set",
        f"On {ours[0]['problems']} problems that no training and no choice has used, seqtune's first proposal reaches "
        f"{share_cell(ours[0])} of the best speed found on {results['device']}, the best of 3 {ours[3]['share']:.3f} "
        f"and of 5 {ours[5]['share']:.3f}. The first proposal of {' and that of '.join(alone)}.",
        f"python -m benchmarks locked --device {results['device']} --trials {results['trials']}{part} --out docs",
        f"{table(rows)}\n\n{kinds_table(rows)}", measured_on(results),
        "All proposals of all methods, the best of a search, the default and a random sample run in one contest of "
        "three builds; medians. In brackets: the 95 % interval (bootstrap of the problems). `†`: better than seqtune.",
        (f"Version {results['version']} of the set. It was looked at: {looks}.",))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    import platformdirs

    from seqtune.data.journal.journal import Journal
    from seqtune.predictor.checkpoint_folder import digests
    from seqtune.predictor.checkpoint_folder import find as find_folder
    from seqtune.tuner.backends.discovery import find

    parser = OneLineParser(__doc__)
    add_out(parser)
    parser.add_argument("--device", default="llvm:0")
    parser.add_argument("--checkpoint", default="default")
    parser.add_argument("--trials", type=positive, default=3000,
                        help="maximum number of configurations that the search measures")
    parser.add_argument("--minutes", type=minutes, default=math.inf, help="minutes after which this call ends")
    parser.add_argument("--problems", type=positive, default=1, metavar="N",
                        help="evaluate only every N-th problem: hours less")
    parser.add_argument("--work", type=Path, help="folder of journal and outcomes [default: the user's cache]")
    given = parser.parse_args(arguments)
    check_ready(given.out)
    work = given.work or Path(platformdirs.user_cache_dir("seqtune")) / "locked"
    device = find(given.device)
    about = {"version": LOCKED_VERSION, "device": device.key, "machine": device.fingerprint,
             "toolchain": device.toolchain, "checkpoint": given.checkpoint, "weights": digests(find_folder(
                 given.checkpoint)), "seqtune": version("seqtune")}
    finished = Finished(work, Deadline(60 * given.minutes))
    with Journal(work / "journal.sqlite") as journal:
        outcomes = live_outcomes(cache(lambda: fitted_methods(given.checkpoint, device)), METHODS, device,
                                 locked_problems()[::given.problems], checksum(about), finished, journal, given.trials)
    if outcomes:
        rows = rows_of(outcomes)
        print(f"{table(rows)}\n\n{kinds_table(rows)}")
    if finished.left or not outcomes:
        print(f"{finished.left} problems remain; run the program again")
        return
    look = {"date": today(), "device": device.name, "checkpoint": given.checkpoint, "seqtune": about["seqtune"]}
    earlier = published(given.out, "locked").get("looked", [])
    publish(given.out, page, {
        "machine": machine([device]), "device": device.name, "version": LOCKED_VERSION, "trials": given.trials,
        "every": given.problems, "looked": [*earlier, look], "rows": rows})
