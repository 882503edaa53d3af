"""Five folds of a GPU's records, by problem: `python -m benchmarks gpu_folds --out docs`.

For each fold a checkpoint learns from the other folds' times alone, without other tuners' choices and without problems
near those of the fold. It is then asked for the fold's problems, beside its parts and beside methods that know the same
times. A method chooses among the measured configurations of a problem; the last table asks the whole spaces, and counts
how many first proposals nobody measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common.evaluation import ALL, COUNTS, by_columns, share_cells
from benchmarks.common.finished import Finished, checksum
from benchmarks.common.page import Page, Results, add_out, check_ready, evaluated, publish
from benchmarks.common.program import OneLineParser, positive, whole
from benchmarks.common.progress import say
from benchmarks.common.report import Row, markdown, today
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.errors import MisuseError
from seqtune.predictor.learning.tasks.shares import OURS

if TYPE_CHECKING:
    from seqtune.kernels.task import MeasuredTask
    from seqtune.predictor.learning.tasks.shares import Outcome
    from seqtune.predictor.predictors import Predictor
    from seqtune.predictor.training.options import TrainingOptions

RECORDS = Path("data/shipped/gpus/nvidia_h100.parquet")
OUTSIDE = ("out", "work")  # options that change no row
THREADS = 2
ANALYTIC = "analytic"
METHODS = {OURS: "seqtune", "transformer": "translator alone", "trees": "trees alone",
           "nearest": "nearest problem", ANALYTIC: "analytic model", "fixed": "best on average",
           "default": "safe default", "random": "random"}


def folds_of(tasks: Sequence[MeasuredTask],
             folds: int) -> Iterator[tuple[list[MeasuredTask], list[MeasuredTask]]]:
    """The training and the evaluated tasks of each fold; no training problem is near an evaluated one."""
    from seqtune.kernels.problem_sets.similarity import SimilarityIndex

    order = np.random.default_rng(0).permutation(len(tasks))
    for fold in range(folds):
        own = [tasks[index] for index in np.sort(order[fold::folds]).tolist()]
        near = SimilarityIndex(task.problem for task in own)
        yield [task for task in tasks if not near.has_near(task.problem)], own


def options_of(given: argparse.Namespace) -> TrainingOptions:
    """The options of the shipped checkpoint's recipe, with fewer epochs and sampled problems."""
    from seqtune.predictor.learning.recipe import Recipe

    recipe = Recipe.read("gpu").options
    return replace(recipe, epochs=given.epochs, patience=given.epochs, extra=given.extra, seed=0, threads=THREADS,
                   confidence=False)


def evaluate_fold(training: Sequence[MeasuredTask], own: Sequence[MeasuredTask],
                  given: argparse.Namespace) -> dict[str, Any]:
    """Train a checkpoint and ask all methods for the fold's problems."""
    from seqtune.predictor.learning.tasks.evaluation import fitted, replayed
    from seqtune.predictor.learning.tasks.training import train_model
    from seqtune.predictor.translator.threads import one_thread

    say(f"training on {len(training)} problems, {len(own)} to evaluate")
    checkpoint, _ = train_model(training, [task.problem for task in own], options_of(given),
                                say)
    with one_thread():
        predictors = fitted(training, checkpoint, list(METHODS))
        asked = [{"problem": task.problem.key, "configurations": int(task.known.sum()), "space": len(task.task),
                  **{name: _is_measured(task, predictors[name]) for name in (OURS, ANALYTIC)}} for task in own]
        outcomes = replayed(own, predictors, list(METHODS), COUNTS)
    return {"training": len(training), "asked": asked, "outcomes": [outcome.to_json() for outcome in outcomes]}


def _is_measured(task: MeasuredTask, predictor: Predictor) -> bool:
    """Whether the first proposal from the whole space is a measured configuration."""
    (candidates,) = predictor.propose([task.task], 1)
    return bool(task.known[task.task.number(candidates[0].configuration)])


def group_of(problem: str) -> str:
    """The operation and the element type of a problem, given by its key."""
    from seqtune.kernels.problem_sets.parse import parse_problem

    parsed = parse_problem(problem)
    return f"{parsed.type} {parsed['dtype']}"


def evaluate(given: argparse.Namespace) -> dict[str, Any]:
    """All folds; the rows are by group of problems, and over all."""
    from seqtune.data.measured_tasks import measured_tasks
    from seqtune.predictor.learning.tasks.shares import Outcome, rows

    data = read_dataset(RECORDS)
    tasks = [task for held_out in (False, True) for task in measured_tasks(data, held_out)]
    if len(tasks) < 2 * given.folds:
        raise MisuseError(f"there are {len(tasks)} problems with times; {given.folds} folds need two each")
    about = checksum({**{name: value for name, value in vars(given).items() if name not in OUTSIDE},
                      "problems": [task.problem.key for task in tasks], "rows": len(data)})
    finished, outcomes, asked = Finished(given.work), list[Outcome](), list[Row]()
    for number, (training, own) in enumerate(folds_of(tasks, given.folds)):
        result = finished.get(("fold", number, about), partial(evaluate_fold, training, own, given))
        outcomes += map(Outcome.from_json, result["outcomes"])
        asked += result["asked"]
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(group_of(outcome.problem), []).append(outcome)
    table = [row.to_json() for name, own in (*sorted(groups.items()), (ALL, outcomes))
             for row in rows([replace(outcome, device=name) for outcome in own])]
    return {"date": today(), "data": RECORDS.name, "folds": given.folds, "epochs": given.epochs,
            "extra": given.extra, "devices": sorted({task.device.name for task in tasks}),
            "asked": [{**row, "group": group_of(row["problem"])} for row in asked], "rows": table}


def tables(results: Results) -> str:
    """The shares by group and method, and the first proposals that nobody measured."""
    by_group = by_columns(results["rows"], "device", "method")
    lines = [[f"{group} ({by_count[0]['problems']})", METHODS[method], *share_cells(by_count)]
             for (group, method), by_count in by_group.items()]
    shares = markdown(["group (problems)", "method", "first proposal", "best of 3", "best of 5"], lines, 2)
    asked = results["asked"]
    counts = []
    for group in (*dict.fromkeys(sorted(row["group"] for row in asked)), ALL):
        part = [row for row in asked if group in (row["group"], ALL)]
        counts.append([group, f"{len(part)}", f"{np.median([row['configurations'] for row in part]):.0f}",
                       f"{np.median([row['space'] for row in part]):,.0f}",
                       *(f"{sum(not row[name] for row in part)}" for name in (OURS, ANALYTIC))])
    unmeasured = markdown(["group", "problems", "measured configurations", "configurations of the spaces",
                           "unmeasured first proposals: seqtune", "analytic model"], counts)
    return f"{shares}\n\n{unmeasured}"


def page(results: Results) -> Page:
    """Make the page of the results."""
    by_group = by_columns(results["rows"], "device", "method")

    def first(group: str, method: str) -> Row:
        return by_group[group, method][0]

    groups = [group for group, method in by_group if method == OURS and group != ALL]
    below = [group for group in groups if first(group, OURS)["share"] < first(group, ANALYTIC)["share"]]
    named = "; ".join(f"{group} {first(group, OURS)['share']:.3f} and {first(group, ANALYTIC)['share']:.3f}"
                      for group in groups)
    unmeasured = sum(not row[OURS] for row in results["asked"])
    against = first(ALL, ANALYTIC)
    claim = (f"On problems that their fold left out, first proposals reach {first(ALL, OURS)['share']:.3f} of the best "
             f"measured speed, those of the analytic model {against['share']:.3f} (difference "
             f"[{against['low']:+.3f}, {against['high']:+.3f}]), of the translator alone "
             f"{first(ALL, 'transformer')['share']:.3f}, of the trees alone {first(ALL, 'trees')['share']:.3f}. "
             f"By group: {named}. " + (f"Below the analytic model: {', '.join(below)}." if below else
                                       "No group is below the analytic model."))
    return Page(
        "gpu_folds", "Problems of a measured GPU", claim,
        f"python -m benchmarks gpu_folds --folds {results['folds']} --epochs {results['epochs']} --extra "
        f"{results['extra']} --out docs", tables(results),
        evaluated(results, f"{results['data']} ({', '.join(results['devices'])})"),
        "Geometric means over problems of the best measured time divided by the time of the choice, each problem by "
        "the checkpoint whose training left its fold out; in brackets 95 % intervals, by drawing problems; `†`: better "
        f"than seqtune. Each of the {results['folds']} trainings has the recipe of the checkpoint `gpu`, but "
        f"{results['epochs']} epochs, {results['extra']:,} sampled problems and no choices of other tuners.",
        (f"Only measured configurations can be judged. From the whole spaces, {unmeasured} of "
         f"{len(results['asked'])} first proposals are configurations that nobody measured.",
         "Groups of few problems say little: look at their intervals.",
         "The same few configurations were measured on many problems, and some were chosen by the analytic model: "
         "that helps all methods."))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--folds", type=positive, default=5)
    parser.add_argument("--epochs", type=positive, default=60, help="of each training (60)")
    parser.add_argument("--extra", type=whole, default=0, help="sampled problems of each training (none)")
    parser.add_argument("--work", type=Path, default=Path("gpu_folds"), help="folder of finished folds")
    add_out(parser)
    given = parser.parse_args(arguments)
    check_ready(given.out)
    results = evaluate(given)
    publish(given.out, page, results)
    print(tables(results))
