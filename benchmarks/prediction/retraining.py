"""A retraining and what it changes, judged live on this machine: `python -m benchmarks retraining --out docs`.

Problems of every kind (`benchmarks.data.problem_kinds`) are drawn with --seed, near none of the shipped data and
none of the locked test set. The first --tuned ones are tuned as a user tunes (`seqtune tune --trials`), and the
checkpoint is retrained with their records (`seqtune retrain`). On each of the --judged others, the proposals of the
checkpoint before and after and the safe default run in one contest: all picks together, built three times, interleaved,
each with one time whoever proposed it. Shares are those of the best speed of the contest.

All trials are in a journal, and the retrained checkpoint and every judged problem are in files next to it, so that
--minutes can end a call and the next one goes on. Nothing else should run at the same time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.page import Page, Results, add_out, check_ready, measured_on, publish
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.report import Row, machine, markdown, write_json
from benchmarks.common.stored_options import check_options
from benchmarks.data.locked_problems import locked_problems
from benchmarks.data.problem_kinds import KINDS
from benchmarks.data.seeded_problems import seeded_problems
from benchmarks.prediction.locked import COUNTS, JudgedFile, judge_with, until_after
from seqtune.data.formats.dataset_file import read_dataset

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.problem import Problem
    from seqtune.predictor.model import Predictor
    from seqtune.predictor.times.model import TimesModel
    from seqtune.predictor.times.shares import Outcome

BEFORE, DEFAULT = "before", "default"  # methods beside `shares.OURS`, which is the retrained checkpoint
BOUND = -0.02  # a retraining must not lose more: least lower end of the interval of after - before
SEED = 36  # fixed before the first run


def drawn(tuned: int, judged: int, seed: int, known: Sequence[Problem]) -> tuple[list[Problem], list[Problem]]:
    """Draw problems to tune and problems to judge by, of all kinds in turn; none is near another or a known one."""
    total, avoid = tuned + judged, [*known]
    by_kind: dict[str, list[Problem]] = {}
    for index, kind in enumerate(KINDS):
        if count := len(range(index, total, len(KINDS))):
            by_kind[kind] = seeded_problems(kind, count, seed, avoid)
            avoid += by_kind[kind]
    problems = [by_kind[KINDS[index % len(KINDS)]][index // len(KINDS)] for index in range(total)]
    return problems[:tuned], problems[tuned:]


def known_problems() -> list[Problem]:
    """The problems of the shipped data, which the checkpoint knows, and those of the locked test set."""
    return [*read_dataset(None).problems(), *locked_problems()]


def tune_until(problems: Sequence[Problem], device: Device, given: argparse.Namespace, work: Path,
               until: float) -> int:
    """Tune the problems, each with the trials of the options, until the time is over; return how many remain."""
    import seqtune

    for number, problem in enumerate(problems):
        if time.monotonic() >= until:
            return len(problems) - number
        tuned, = seqtune.tune([problem], device, trials=given.trials, seed=given.seed,
                              journal=work / "journal.sqlite").results
        _say(f"tuned {number + 1}/{len(problems)}: {problem.brief()}, {tuned.trials} trials, {tuned.measured} new")
    return 0


def retrained(given: argparse.Namespace, work: Path) -> TimesModel:
    """Retrain the checkpoint with all records of the journal, or load the one of an earlier call."""
    import seqtune
    from seqtune.data.dataset import Dataset
    from seqtune.data.journal import Journal
    from seqtune.predictor.times.model import TimesModel

    adapted = work / "adapted"
    if not adapted.exists():
        with Journal(work / "journal.sqlite") as journal:
            Dataset.from_journal(journal).write(work / "new.parquet")
        _say("retraining")
        seqtune.retrain(given.checkpoint, work / "new.parquet", adapted, seed=given.seed,
                        minutes=given.retraining_minutes, progress=lambda step: _say(step.text))
    return TimesModel.load(adapted)


def rows_of(outcomes: Sequence[Outcome]) -> list[Row]:
    """The rows by method and number of measured proposals; those of `before` have the interval of after - before."""
    from seqtune.predictor.times.shares import OURS, rows

    return [{**row.to_json(), "method": "after" if row.method == OURS else row.method} for row in rows(list(outcomes))]


def change(rows: Sequence[Row], count: int) -> tuple[float, float, float]:
    """The share after minus the share before at a number of measured proposals, with its 95 % interval."""
    own = {row["method"]: row for row in rows if row["measured"] == count}
    return own["after"]["share"] - own[BEFORE]["share"], own[BEFORE]["low"], own[BEFORE]["high"]


def table(rows: Sequence[Row]) -> str:
    """Make the table: a line for each method, and one for the change."""
    lines = []
    for method in (BEFORE, "after", DEFAULT):
        own = {row["measured"]: row for row in rows if row["method"] == method}
        lines.append([method, str(own[0]["problems"]), *(
            f"{own[count]['share']:.3f} [{own[count]['share_low']:.3f}, {own[count]['share_high']:.3f}]"
            for count in COUNTS)])
    lines.append(["after - before", lines[0][1], *(
        "{:+.3f} [{:+.3f}, {:+.3f}]".format(*change(rows, count)) for count in COUNTS)])
    return markdown(["method", "problems", "first proposal", "best of 3", "best of 5"], lines)


def claim(results: Results) -> str:
    """The sentence with the figures that matter."""
    rows, retraining = results["rows"], results["retraining"]
    difference, low, high = change(rows, 0)
    shares = {row["method"]: row["share"] for row in rows if row["measured"] == 0}
    problems = next(row["problems"] for row in rows)
    return (f"Retraining with {retraining['new_problems']} tuned problems ({retraining['left_out']} left out) takes "
            f"the first proposal on {problems} others from {shares[BEFORE]:.3f} to {shares['after']:.3f} of the best "
            f"speed of the contest: {difference:+.3f} [{low:+.3f}, {high:+.3f}], whose lower end is "
            f"{'at least' if low >= BOUND else 'below'} {BOUND}.")


def page(results: Results) -> Page:
    """Make the page of the results."""
    retraining = results["retraining"]
    return Page(
        "retraining", "What a retraining changes", claim(results),
        f"python -m benchmarks retraining --device {results['device']} --tuned {results['tuned']} "
        f"--judged {results['judged']} --trials {results['trials']} --seed {results['seed']} --out docs",
        table(results["rows"]), measured_on(results),
        "All proposals of the checkpoint before and after and the safe default run in one contest of three builds; "
        "medians. In brackets: the 95 % interval (bootstrap of the problems), for the change a paired one.",
        (f"The retraining took {retraining['seconds']:.0f} s and {retraining['epochs']} epochs, with "
         f"{results['trials']} trials of each tuned problem.",
         "The best speed is that of the contest, not of a search, so shares are higher than against the best known "
         "speed; this is the same for both checkpoints."))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    add_out(parser)
    parser.add_argument("--device", default="llvm:0")
    parser.add_argument("--checkpoint", default="default")
    parser.add_argument("--tuned", type=positive, default=20, help="problems to tune and retrain with")
    parser.add_argument("--judged", type=positive, default=24, help="other problems to judge by")
    parser.add_argument("--trials", type=positive, default=200, help="configurations that the tuning of each measures")
    parser.add_argument("--retraining-minutes", type=float, help="time limit of the retraining [default: its own]")
    parser.add_argument("--seed", type=int, default=SEED, help="of the problems, the tuning and the retraining")
    parser.add_argument("--minutes", type=positive, help="minutes after which this call ends")
    parser.add_argument("--work", type=Path, help="folder of journal, checkpoint and judged problems [default: the "
                        "user's cache]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this JSON file")
    given = parser.parse_args(arguments)
    run(given)


def run(given: argparse.Namespace) -> None:
    """Tune, retrain and judge, as far as earlier calls have not, and write the results when all are judged."""
    import platformdirs

    from seqtune.data.journal import Journal
    from seqtune.predictor.checkpoint_folder import digests
    from seqtune.predictor.checkpoint_folder import find as find_folder
    from seqtune.predictor.times.baselines import Default
    from seqtune.predictor.times.evaluation import EvaluateOptions
    from seqtune.predictor.times.model import TimesModel
    from seqtune.predictor.times.shares import OURS
    from seqtune.tuner.backends.discovery import find

    check_ready(given.out)
    device = find(given.device)
    work = given.work or Path(platformdirs.user_cache_dir("seqtune")) / "retraining"
    weights = digests(find_folder(given.checkpoint))
    check_options(work / "options.json", {
        "device": device.key, "machine": device.fingerprint, "toolchain": device.toolchain, "weights": weights,
        "tuned": given.tuned, "judged": given.judged, "trials": given.trials, "seed": given.seed,
        "retraining_minutes": given.retraining_minutes}, work)
    until = until_after(given.minutes)
    tuned, others = drawn(given.tuned, given.judged, given.seed, known_problems())
    left = tune_until(tuned, device, given, work, until)
    if left or time.monotonic() >= until:
        print(f"{left} problems to tune, the retraining and the contests remain; run the program again")
        return
    after = retrained(given, work)
    judged = JudgedFile(work / "judged.jsonl", {"before": weights, "after": digests(work / "adapted")})
    proposers: dict[str, Predictor] = {OURS: after, BEFORE: TimesModel.load(given.checkpoint), DEFAULT: Default()}
    with Journal(work / "journal.sqlite") as journal:
        left = judge_with(proposers, list(proposers), device, others, judged, journal, 0, until,
                          EvaluateOptions(sample=0))
    if left:
        print(f"{left} problems to judge remain; run the program again")
        return
    results: dict[str, Any] = {
        "machine": machine([device]), "device": device.name, "checkpoint": str(given.checkpoint), "tuned": given.tuned,
        "judged": given.judged, "trials": given.trials, "seed": given.seed, "retraining": dict(after.metrics),
        "outcomes": [judged.outcomes[problem.key].to_json() for problem in others if problem.key in judged.outcomes],
        "rows": rows_of([judged.outcomes[problem.key] for problem in others if problem.key in judged.outcomes])}
    print(f"{table(results['rows'])}\n\n{claim(results)}")
    if given.json is not None:
        write_json(given.json, results)
    publish(given.out, page, results)
