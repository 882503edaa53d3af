"""The locked test set, judged live on this machine: `python -m benchmarks locked --out docs`.

Every locked problem (`benchmarks.data.locked_problems`) is first searched: completely if its space has at most
--trials configurations, else by a local search of that many. Then all that any method proposes, the fastest eight of
the search, the safe default and random configurations run in one contest (`seqtune.tuner.measuring.contest`): each has
one time for all methods, the median over three builds. Shares are shown by kind of problem, with 95 % intervals and the
ceiling: an oracle whose choice is measured again.

The set is for the last look before a release, not for choices: the results file keeps a line for each time that it was
looked at. The search is in a journal and every judged problem in a file next to it, so that --minutes can end a call
and the next one goes on. Nothing else should run at the same time.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.page import RESULTS, Page, Results, add_out, check_ready, measured_on, publish
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.report import Row, machine, markdown, today
from benchmarks.data.locked_problems import LOCKED_VERSION, locked_problems
from benchmarks.data.problem_kinds import KINDS, kind_of, traits_of
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.errors import FormatError, KernelError, SeqtuneError
from seqtune.kernels.files import read_bounded
from seqtune.kernels.problem_sets.parse import parse_problem

if TYPE_CHECKING:
    from seqtune.data.journal import Journal
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.task import MeasuredTask
    from seqtune.predictor.model import Predictor
    from seqtune.predictor.times.evaluation import EvaluateOptions
    from seqtune.predictor.times.shares import Outcome
    from seqtune.tuner.measuring.runner import Runner

COUNTS = (0, 3, 5)
METHODS = ("seqtune", "transformer", "trees", "nearest", "fixed", "default", "random")
ALL = "all"
RANDOM = 24  # configurations that estimate random choices; the search has found the best time before
LARGEST_FILE = 10_000_000  # bytes of a results file


def searched(problem: Problem, device: Device, journal: Journal, runner: Runner, trials: int) -> MeasuredTask | None:
    """Search a problem, or take its trials from the journal; None if no kernel solves it."""
    from seqtune.kernels.task import MeasuredTask, Task
    from seqtune.tuner.tune import Budget, Finals, TuningOptions, tune

    try:
        task = Task.of(problem, device)
    except KernelError:
        return None
    strategy = "random" if len(task) <= trials else "local"
    tune(task, journal, runner, Budget(trials=trials), TuningOptions(strategy, finals=Finals(count=0)))
    return MeasuredTask.of_times(task, {
        configuration: measurement.seconds
        for configuration, measurement in journal.trials(problem, device, task.kernels).items()})


class JudgedFile:
    """The outcomes of judged problems, one JSON object in each line, written at once.

    `about` is all that outcomes depend on; those of another machine, checkpoint or version are not read. Raises
    FormatError if the file is damaged.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        from seqtune.predictor.times.shares import Outcome

        self.path, self.about = path, dict(about)
        self.outcomes: dict[str, Outcome] = {}
        for number, line in enumerate(path.read_text().splitlines() if path.exists() else (), start=1):
            try:
                content = json.loads(line)
                if content["about"] == self.about:
                    outcome = Outcome.from_json(content)
                    self.outcomes[outcome.problem] = outcome
            except (ValueError, LookupError, TypeError, FormatError):
                raise FormatError(f"{path}:{number} is not what this program writes; remove the line") from None

    def add(self, outcome: Outcome) -> None:
        """Store an outcome."""
        with self.path.open("a") as file:
            file.write(json.dumps({**outcome.to_json(), "about": self.about}) + "\n")
        self.outcomes[outcome.problem] = outcome


def judge(given: argparse.Namespace, device: Device, problems: Sequence[Problem], judged: JudgedFile,
          journal: Journal) -> int:
    """Judge the problems that are not judged yet, until the time is over; return how many remain."""
    from seqtune.data.measured_tasks import measured_tasks
    from seqtune.predictor.times.evaluation import EvaluateOptions, fitted
    from seqtune.predictor.times.model import TimesModel

    until = until_after(given.minutes)
    if all(problem.key in judged.outcomes for problem in problems):
        return 0
    data = read_dataset(None)
    alike = data.rows["device"].isin(data.named(device.name))  # the baselines learn from devices of the same name only
    training = measured_tasks(replace(data, rows=data.rows[alike]), held_out=False)
    proposers = fitted(training, TimesModel.load(given.checkpoint), METHODS, _say)
    return judge_with(proposers, METHODS, device, problems, judged, journal, given.trials, until,
                      EvaluateOptions(sample=RANDOM))


def until_after(minutes: int | None) -> float:
    """The time of the monotonic clock, in seconds, at which a call of so many minutes ends; None: never."""
    return time.monotonic() + 60 * minutes if minutes else math.inf


def judge_with(proposers: Mapping[str, Predictor], methods: Sequence[str], device: Device, problems: Sequence[Problem],
               judged: JudgedFile, journal: Journal, trials: int, until: float,
               options: EvaluateOptions | None = None) -> int:
    """Search each problem that is not judged yet, and hold a contest of the proposals of all methods.

    Without `trials` there is no search: the best time is then that of the proposals alone. It ends at the time `until`
    of the monotonic clock, in seconds. Returns the number of problems that remain.
    """
    from seqtune.predictor.times.evaluation import EvaluateOptions, live_outcome
    from seqtune.predictor.times.live import LiveContest

    todo = [problem for problem in problems if problem.key not in judged.outcomes]
    with LiveContest(device, lambda step: None) as contest:
        for number, problem in enumerate(todo):
            if time.monotonic() >= until:
                return len(todo) - number
            try:
                known = searched(problem, device, journal, contest.runner, trials) if trials else None
                if trials and known is None:
                    continue
                judged.add(live_outcome(problem, device, proposers, methods, COUNTS, contest,
                                        options or EvaluateOptions(), known))
            except SeqtuneError as error:
                if type(error) is not SeqtuneError:
                    raise
                _say(f"{problem.brief()} is left out: {error}")
                continue
            share = math.exp(judged.outcomes[problem.key].log_shares[methods[0], 0])
            _say(f"{device.name} {number + 1}/{len(todo)} {kind_of(problem)}: {problem.brief()} {share:.3f}")
    return 0


def rows_of(outcomes: Iterable[Outcome]) -> list[Row]:
    """The rows over all problems, by kind and by trait; every one has a 95 % interval and the ceiling."""
    from seqtune.predictor.times.shares import rows

    by_group: dict[str, list[Outcome]] = {name: [] for name in (ALL, *KINDS)}
    for outcome in outcomes:
        problem = parse_problem(outcome.problem)
        for name in (ALL, kind_of(problem), *traits_of(problem)):
            by_group.setdefault(name, []).append(replace(outcome, device=name))
    return [{"group": row.device, **{name: value for name, value in row.to_json().items() if name != "device"}}
            for part in by_group.values() if part for row in rows(part)]


def table(rows: Sequence[Row]) -> str:
    """Make the first table: each method over all problems."""
    lines = []
    for method in METHODS:
        own = {row["measured"]: row for row in rows if row["group"] == ALL and row["method"] == method}
        marks = ["†" if own[count]["worse"] else "" for count in COUNTS]
        lines.append([f"**{method}**" if method == "seqtune" else method, *(
            f"{own[count]['share']:.3f}{mark} [{own[count]['share_low']:.3f}, {own[count]['share_high']:.3f}]"
            for count, mark in zip(COUNTS, marks, strict=True))])
    ceiling = next(row["ceiling"] for row in rows if row["group"] == ALL)
    lines.append(["ceiling (re-tested oracle)", *(["-" if ceiling is None else f"{ceiling:.3f}"] * len(COUNTS))])
    return markdown(["method", "first proposal", "best of 3", "best of 5"], lines)


def kinds_table(rows: Sequence[Row]) -> str:
    """Make the second table: seqtune by kind and trait of problem, and the first proposals of its parts."""
    lines = []
    for group in dict.fromkeys(row["group"] for row in rows):
        own = {(row["method"], row["measured"]): row for row in rows if row["group"] == group}
        first = own["seqtune", 0]
        lines.append([group, str(first["problems"]),
                      f"{first['share']:.3f} [{first['share_low']:.3f}, {first['share_high']:.3f}]",
                      *(f"{own['seqtune', count]['share']:.3f}" for count in COUNTS[1:]),
                      *(f"{own[method, 0]['share']:.3f}" for method in ("transformer", "trees", "default")),
                      "-" if first["ceiling"] is None else f"{first['ceiling']:.3f}"])
    return markdown(["problems", "number", "first proposal", "best of 3", "best of 5", "transformer alone",
                     "trees alone", "default", "ceiling"], lines)


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    ours = {row["measured"]: row for row in rows if row["group"] == ALL and row["method"] == "seqtune"}
    part = f" --problems {results['every']}" if results["every"] > 1 else ""
    looks = "; ".join(f"{look['date']} ({look['device']}, seqtune {look['seqtune']}, checkpoint {look['checkpoint']})"
                      for look in results["looked"])
    return Page(
        "locked", "The locked test set",
        f"On {ours[0]['problems']} problems that no training and no choice has used, seqtune's first proposal reaches "
        f"{ours[0]['share']:.3f} [{ours[0]['share_low']:.3f}, {ours[0]['share_high']:.3f}] of the best speed found on "
        f"{results['device']}, the best of 3 {ours[3]['share']:.3f} and of 5 {ours[5]['share']:.3f}.",
        f"python -m benchmarks locked --device {results['device']} --trials {results['trials']}{part} --out docs",
        f"{table(rows)}\n\n{kinds_table(rows)}", measured_on(results),
        "All proposals of all methods, the best of a search, the default and a random sample run in one contest of "
        "three builds; medians. In brackets: the 95 % interval (bootstrap of the problems). `†`: better than seqtune.",
        (f"Version {results['version']} of the set. It was looked at: {looks}.",))


def looked_before(out: Path | None) -> list[Row]:
    """The earlier looks that the results file in the folder lists."""
    path = None if out is None else out / RESULTS / "locked.json"
    if path is None or not path.exists():
        return []
    return list(json.loads(read_bounded(path, LARGEST_FILE))["looked"])


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    add_out(parser)
    parser.add_argument("--device", default="llvm:0")
    parser.add_argument("--checkpoint", default="default")
    parser.add_argument("--trials", type=positive, default=3000,
                        help="maximum number of configurations that the search measures")
    parser.add_argument("--minutes", type=positive, help="minutes after which this call ends")
    parser.add_argument("--problems", type=positive, metavar="N", help="judge only every N-th problem: hours less")
    parser.add_argument("--work", type=Path, help="folder of journal and judged problems [default: the user's cache]")
    given = parser.parse_args(arguments)
    run(given)


def run(given: argparse.Namespace) -> None:
    """Judge the locked problems, and write the results when all are judged."""
    import platformdirs

    from seqtune.data.journal import Journal
    from seqtune.predictor.checkpoint_folder import digests
    from seqtune.predictor.checkpoint_folder import find as find_folder
    from seqtune.tuner.backends.discovery import find

    check_ready(given.out)
    work = given.work or Path(platformdirs.user_cache_dir("seqtune")) / "locked"
    work.mkdir(parents=True, exist_ok=True)
    device = find(given.device)
    problems = locked_problems()[::given.problems or 1]
    about = {"version": LOCKED_VERSION, "device": device.key, "machine": device.fingerprint,
             "toolchain": device.toolchain, "checkpoint": given.checkpoint, "weights": digests(find_folder(
                 given.checkpoint)), "seqtune": version("seqtune")}
    judged = JudgedFile(work / "judged.jsonl", about)
    with Journal(work / "journal.sqlite") as journal:
        left = judge(given, device, problems, judged, journal)
    outcomes = [judged.outcomes[problem.key] for problem in problems if problem.key in judged.outcomes]
    if outcomes:
        rows = rows_of(outcomes)
        print(f"{table(rows)}\n\n{kinds_table(rows)}")
    if left or not outcomes:
        print(f"{left} problems remain; run the program again")
        return
    look = {"date": today(), "device": device.name, "checkpoint": given.checkpoint, "seqtune": about["seqtune"]}
    results = {"machine": machine([device]), "device": device.name, "version": LOCKED_VERSION, "trials": given.trials,
               "every": given.problems or 1, "looked": [*looked_before(given.out), look], "rows": rows}
    publish(given.out, page, results)
