"""A machine that the training never saw: leave one machine, or one OpenCL runtime, out.

For each machine (or runtime) a predictor is trained on all other devices of the data set and judged on the one left
out, on problems that are new to it as well: without any data of it, and after a few of its problems. The methods
choose among the measured configurations. Shares have 95 % intervals by a bootstrap of the problems; in the row over all
devices of a machine, the devices of a problem are drawn together.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common.page import Page, Results, add_out, check_ready, evaluated, publish
from benchmarks.common.program import OneLineParser, positive, run_program
from benchmarks.common.report import markdown, today
from benchmarks.prediction.left_out import LeftOut, groups, left_out
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.errors import MisuseError, SeqtuneError

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.predictor.times.checkpoint import Checkpoint
    from seqtune.predictor.times.shares import Outcome
    from seqtune.predictor.training.loop import Progress

COUNTS = (0, 3, 5)
ALL = "all"  # the device name in the rows over all devices of a group
SIMPLE = ("trees", "nearest", "fixed", "default", "random")
FULL = ("seqtune", "transformer", *SIMPLE)
NEVER, FEW = "no data of it", "after a few problems"

Row = dict[str, Any]


def together(results: Sequence[Outcome]) -> list[Outcome]:
    """One outcome for each problem: the mean log shares of its devices, which a bootstrap then draws together."""
    by_problem: dict[str, list[Outcome]] = {}
    for outcome in results:
        by_problem.setdefault(outcome.problem, []).append(outcome)
    merged = []
    for same in by_problem.values():
        retests = [outcome.retest for outcome in same if outcome.retest is not None]
        shares = {key: float(np.mean([outcome.log_shares[key] for outcome in same])) for key in same[0].log_shares}
        merged.append(replace(same[0], device=ALL, log_shares=shares,
                              unmeasured=sum(outcome.unmeasured for outcome in same),
                              retest=float(np.mean(retests)) if retests else None))
    return merged


def judged_rows(data: Dataset, checkpoint: Checkpoint | None, about: Mapping[str, Any]) -> list[Row]:
    """Judge all methods on the held-out problems: rows by device, and over all devices where there are several."""
    from seqtune.predictor.times.evaluation import outcomes
    from seqtune.predictor.times.shares import rows

    results = outcomes(data, checkpoint, SIMPLE if checkpoint is None else FULL, COUNTS, progress=_say)
    several = len({outcome.device for outcome in results}) > 1
    parts = (results, together(results) if several else [])
    return [{**about, **row.to_json()} for part in parts for row in rows(part)]


def judge_group(given: argparse.Namespace, split: LeftOut) -> tuple[list[Row], dict[str, Any]]:
    """Train without the group, judge it, learn a few of its problems, judge again; rows, and what training said."""
    about: dict[str, Any] = {"left_out": split.name, "setting": NEVER}
    few = split.with_few(given.few, given.seed) if given.few else None
    if given.trees_only:
        rows = judged_rows(split.judged_with(), None, about)
        return rows + ([] if few is None else judged_rows(split.judged_with(few), None, {**about, "setting": FEW})), {}
    checkpoint, training = trained(given, split)
    rows = judged_rows(split.judged_with(), checkpoint, about)
    if few is not None:
        adapted, report = adapted_to(given, checkpoint, few, split.without)
        training["adapting"] = report
        rows += judged_rows(split.judged_with(few), adapted, {**about, "setting": FEW})
    return rows, training


def trained(given: argparse.Namespace, split: LeftOut) -> tuple[Checkpoint, dict[str, Any]]:
    """Train without the group, or load the checkpoint of an earlier call from the folder --work."""
    from seqtune.predictor.times.checkpoint import Checkpoint
    from seqtune.predictor.times.training import train
    from seqtune.predictor.times.training_options import TrainingOptions

    folder = given.work / f"without {split.name}".replace(":", "-").replace(" ", "-")
    if folder.exists():
        return Checkpoint.load(folder), {"checkpoint": folder.name}
    options = TrainingOptions(epochs=given.epochs, extra=given.extra, seed=given.seed, threads=given.threads,
                              state=given.work / f"{folder.name}-training")
    given.work.mkdir(parents=True, exist_ok=True)
    checkpoint, report = train(split.without, options, _progress)
    if report["interrupted"]:
        raise SeqtuneError("the training was interrupted; run the command again to resume")
    checkpoint.save(folder)
    return checkpoint, {name: report[name] for name in ("problems", "cases", "epochs", "seconds")}


def adapted_to(given: argparse.Namespace, checkpoint: Checkpoint, few: Dataset,
               old: Dataset) -> tuple[Checkpoint, dict[str, Any]]:
    """Retrain a checkpoint with a few problems of the group."""
    from seqtune.predictor.times.retraining import RETRAINING, retrain

    options = replace(RETRAINING, seed=given.seed, threads=given.threads)
    adapted, report = retrain(checkpoint, few, old, options, _progress, scratch=False)
    if report["interrupted"]:
        raise SeqtuneError("the retraining was interrupted; run the command again")
    return adapted, {name: report[name] for name in ("new_problems", "epochs", "seconds")}


def table(rows: Sequence[Row]) -> str:
    """Make the table: a line for each group, setting, device and method, best of 0, 3 and 5 with intervals."""
    cells: dict[tuple[str, ...], dict[int, Row]] = {}
    for row in rows:
        cells.setdefault((row["left_out"], row["setting"], row["device"], row["method"]), {})[row["measured"]] = row
    lines = []
    for (group, setting, device, method), by_count in cells.items():
        several = (group, setting, ALL, method) in cells
        if several and device != ALL:
            continue
        name = f"**{method}**" if method == "seqtune" else method
        ceiling = by_count[COUNTS[0]]["ceiling"]
        lines.append([group, setting, str(by_count[COUNTS[0]]["problems"]), name,
                      *(_share(by_count[count]) for count in COUNTS), "-" if ceiling is None else f"{ceiling:.3f}"])
    return markdown(["left out", "setting", "problems", "method", "first proposal", "best of 3", "best of 5",
                     "ceiling"], lines, left=4)


def _share(row: Row) -> str:
    mark = "†" if row["worse"] else ""
    return f"{row['share']:.3f}{mark} [{row['share_low']:.3f}, {row['share_high']:.3f}]"


def claim(rows: Sequence[Row]) -> str:
    """The sentence with the figures that matter: the first proposals of the best model on every group."""
    best = "seqtune" if any(row["method"] == "seqtune" for row in rows) else "trees"
    parts = []
    for group in dict.fromkeys(row["left_out"] for row in rows):
        own = [row for row in rows if row["left_out"] == group and row["method"] == best and row["setting"] == NEVER]
        devices = {row["device"] for row in own}
        first, fifth = ({row["measured"]: row for row in own if row["device"] in (
            {ALL} if ALL in devices else devices)}[count] for count in (COUNTS[0], COUNTS[-1]))
        parts.append(f"{first['share']:.3f} [{first['share_low']:.3f}, {first['share_high']:.3f}] on {group} (best of "
                     f"{COUNTS[-1]} {fifth['share']:.3f})")
    subject = "seqtune's first proposal" if best == "seqtune" else "The first proposal of trees"
    return f"{subject} reaches, of the best known speed, without data of the machine or runtime: {', '.join(parts)}."


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    few = results["few"]
    return Page(
        "machines", "A machine that the training never saw", claim(rows), "python -m benchmarks.machines --out docs",
        table(rows), evaluated(results, "the shipped data set"),
        "Each machine (a CPU with its caches, all its devices) and each OpenCL runtime is left out in turn. Judged "
        "problems, and those near them, are left out of the training on all other devices, too. In brackets: the 95 % "
        "interval (bootstrap of the problems; the devices of a problem are drawn together). `†`: better than seqtune. "
        + (f"`{FEW}`: after retraining with {few} problems of the machine." if few else ""),
        (f"One training a line, with seed {results['seed']}.",
         "The methods choose among measured configurations. Single times measured on virtual machines are noisy; the "
         "ceiling, where there are repeated builds, is what an oracle reaches whose choice is measured again."))


def _progress(step: Progress) -> None:
    _say(f"epoch {step.epoch}/{step.epochs}, loss {step.loss:.4f}, {step.seconds:.0f} s")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Run the command line."""
    parser = OneLineParser(f"python -m benchmarks.machines: {__doc__}")
    add_out(parser)
    parser.add_argument("--data", type=Path, nargs="+", help="data sets besides the shipped ones")
    parser.add_argument("--leave", nargs="+", help="machines and runtimes to leave out [default: each in turn]")
    parser.add_argument("--trees-only", action="store_true", help="train no transformer: minutes instead of hours")
    parser.add_argument("--few", type=int, default=20, help="problems of the machine to learn then; 0: none")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=positive, default=30)
    parser.add_argument("--extra", type=int, default=3000, help="additional problems that the teacher labels")
    parser.add_argument("--threads", type=positive, default=2)
    parser.add_argument("--work", type=Path, help="folder of the trainings [default: in the user's cache folder]")
    given = parser.parse_args()
    run_program("machines", lambda: run(given))


def run(given: argparse.Namespace) -> None:
    """Leave out each group in turn, and write the results."""
    import platformdirs

    check_ready(given.out)
    given.work = given.work or Path(platformdirs.user_cache_dir("seqtune")) / "machines"
    data = read_dataset(None)
    for path in given.data or ():
        data = data.merge(read_dataset(path))
    names = given.leave or list(groups(data.devices.values()))
    if not names:
        raise MisuseError("the data set has one machine and at most one OpenCL runtime; nothing can be left out")
    rows: list[Row] = []
    trainings: dict[str, Any] = {}
    for name in names:
        own, trainings[name] = judge_group(given, left_out(data, name, given.seed))
        rows += own
        _say(table(own))
    results = {"date": today(), "seed": given.seed, "few": given.few, "trees_only": given.trees_only,
               "trainings": trainings, "rows": rows}
    publish(given.out, page, results)
    print(f"{table(rows)}\n\n{claim(rows)}")


if __name__ == "__main__":
    main()
