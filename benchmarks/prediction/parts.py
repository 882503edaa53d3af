"""The predictor against each of its parts alone: `python -m benchmarks parts --out docs`.

Three settings: the held-out cases of the shipped devices, answered by a checkpoint; libraries of few problems, on
which small checkpoints are trained, drawn from the training part of the shipped data, each of one kernel on one device;
three libraries of examples/, which are measured first. Every part is asked alone on the same problems; `python -m
benchmarks machines` does so on a machine that the training never saw. Trials and finished steps are kept in the folder
--work, and the same command goes on.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common.evaluation import BEST_OF, COUNTS, by_columns, merged_devices, share_cells
from benchmarks.common.finished import Finished, checksum
from benchmarks.common.page import Page, Results, add_out, check_ready, evaluated, measured_on, publish
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.report import Row, machine, markdown, today
from benchmarks.prediction.example_libraries import measured_examples
from seqtune.data.formats.dataset_file import read_dataset

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.task import MeasuredTask
    from seqtune.predictor.checkpoint import Checkpoint
    from seqtune.predictor.learning.tasks.shares import Outcome

METHODS = ("seqtune", "transformer", "trees", "nearest", "fixed", "default", "random")
PARTS = ("transformer", "trees", "nearest", "fixed", "default")
HELD_OUT = "held-out cases"
SIZES = (6, 12, 30)  # problems of a library
LIBRARIES = 4  # pairs of a kernel and a device, those with the most problems but of different kernels
CONFIGURATIONS = 40  # measured of each problem of a library
EVALUATED = 40  # other problems of a library's kernel and device


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    import platformdirs

    from seqtune.tuner.backends.discovery import find

    parser = OneLineParser(__doc__)
    add_out(parser)
    parser.add_argument("--checkpoint", default="default", help="of the held-out cases")
    parser.add_argument("--sizes", type=positive, nargs="*", default=SIZES, help="problems of a library")
    parser.add_argument("--draws", type=positive, default=2, help="trainings for each library and size")
    parser.add_argument("--device", help="device on which the libraries of examples/ are measured [default: none]")
    parser.add_argument("--problems", type=positive, help="first problems of each of these libraries [default: all]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=positive, default=2)
    parser.add_argument("--work", type=Path, help="folder of finished steps [default: in the user's cache folder]")
    given = parser.parse_args(arguments)
    check_ready(given.out)
    given.work = given.work or Path(platformdirs.user_cache_dir("seqtune")) / "parts"
    device = None if given.device is None else find(given.device)
    rows = evaluate_all(read_dataset(None), device, given)
    results = {"date": today(), "checkpoint": Path(given.checkpoint).name, "seed": given.seed, "draws": given.draws,
               "device": given.device, "machine": {} if device is None else machine([device]), "rows": rows}
    publish(given.out, page, results)
    print(f"{table(rows)}\n\n{claim(rows)}")


def evaluate_all(data: Dataset, device: Device | None, given: argparse.Namespace) -> list[Row]:
    """The rows of all settings; those of the example libraries only with a device to measure them on."""
    from seqtune.data.measured_tasks import measured_tasks

    finished = Finished(given.work)
    training, held_out = (measured_tasks(data, held_out=part) for part in (False, True))
    seconds = data.frame["seconds"]
    about = checksum([given.seed, len(seconds), int(seconds.notna().sum())])
    rows = _rows(HELD_OUT, finished.get(["held-out", Path(given.checkpoint).name, about],
                                        lambda: _json(_held_out(given.checkpoint, training, held_out))))
    examples = {} if device is None else measured_examples(device, given.work / "trials.sqlite", CONFIGURATIONS,
                                                           given.problems)
    groups: dict[str, list[Sequence[MeasuredTask]]] = {
        "library": list(libraries(training)), **{name: [tasks] for name, tasks in examples.items()}}
    for name, size in product(groups, given.sizes):
        outcomes: list[Any] = []
        for tasks, draw in product(groups[name], range(given.draws)):
            times = checksum([about, [measured.best for measured in tasks]])
            outcomes += finished.get([name, size, draw, given.seed, times],
                                     lambda tasks=tasks, size=size, draw=draw: _json(  # type: ignore[misc]
                                         _library(tasks, size, draw, given)))
        rows += _rows(f"{name} of {size}", outcomes)
    return rows


def _json(outcomes: Sequence[Outcome]) -> list[dict[str, object]]:
    return [outcome.to_json() for outcome in outcomes]


def _rows(setting: str, stored: Sequence[Any]) -> list[Row]:
    """The rows of a setting, over all its problems."""
    from seqtune.predictor.learning.tasks.shares import Outcome, rows

    outcomes = merged_devices([Outcome.from_json(outcome) for outcome in stored])
    return [{"setting": setting, **row.to_json()} for row in rows(outcomes)]


def _outcomes(checkpoint: Checkpoint, training: Sequence[MeasuredTask],
              evaluated_on: Sequence[MeasuredTask]) -> list[Outcome]:
    from seqtune.predictor.learning.tasks.evaluation import fitted, replayed
    from seqtune.predictor.translator.threads import one_thread

    with one_thread():
        return replayed(evaluated_on, fitted(training, checkpoint, METHODS), METHODS, COUNTS)


def _held_out(checkpoint: str, training: Sequence[MeasuredTask], held_out: Sequence[MeasuredTask]) -> list[Outcome]:
    from seqtune.predictor.checkpoint import Checkpoint

    return _outcomes(Checkpoint.load(checkpoint), training, held_out)


def libraries(training: Sequence[MeasuredTask], count: int = LIBRARIES) -> list[list[MeasuredTask]]:
    """The tasks of single kernels on single devices: the pairs with the most problems, all of different kernels."""
    from seqtune.kernels.task import MeasuredTask, Task

    pairs: dict[tuple[str, str], list[MeasuredTask]] = {}
    for measured in training:
        for space, part in measured.task.parts():
            if np.isfinite(measured.seconds[part]).sum() > 1:
                pairs.setdefault((space.kernel.name, measured.device.key), []).append(
                    MeasuredTask(Task(measured.problem, measured.device, (space,)), measured.seconds[part]))
    largest: dict[str, list[MeasuredTask]] = {}
    for (kernel, _), tasks in sorted(pairs.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        largest.setdefault(kernel, tasks)
    return list(largest.values())[:count]


def _library(tasks: Sequence[MeasuredTask], size: int, draw: int, given: argparse.Namespace) -> list[Outcome]:
    """Train on a few of the tasks, with some configurations of each, and evaluate on others that are not near."""
    from seqtune.kernels.problem_sets.similarity import SimilarityIndex
    from seqtune.kernels.task import MeasuredTask
    from seqtune.predictor.learning.tasks.small.options import small_options
    from seqtune.predictor.learning.tasks.small.training import train_small
    from seqtune.predictor.training.options import TrainingOptions

    generator = np.random.default_rng([given.seed, size, draw])
    order = generator.permutation(len(tasks)).tolist()
    training = []
    for index in order[:size]:
        seconds, known = np.full(len(tasks[index].task), np.nan), np.flatnonzero(tasks[index].known)
        kept = generator.permutation(known)[:CONFIGURATIONS]
        seconds[kept] = tasks[index].seconds[kept]
        if np.isfinite(seconds).any():
            training.append(MeasuredTask(tasks[index].task, seconds))
    near = SimilarityIndex(measured.problem for measured in training)
    others = [tasks[index] for index in order[size:] if not near.has_near(tasks[index].problem)][:EVALUATED]
    options = small_options(training, TrainingOptions(seed=given.seed, threads=given.threads))
    checkpoint, _ = train_small(training, [], options, force=True)
    return _outcomes(checkpoint, training, [measured for measured in others
                                            if not checkpoint.vocabulary.differences(measured.task.kernels)])


def table(rows: Sequence[Row]) -> str:
    """Make the table: a line for each setting and method."""
    lines = [[setting, str(by_count[0]["problems"]), f"**{method}**" if method == METHODS[0] else method,
              *share_cells(by_count)] for (setting, method), by_count in by_columns(rows, "setting", "method").items()]
    return markdown(["setting", "problems", "method", *BEST_OF], lines, left=3)


def differences(rows: Sequence[Row]) -> dict[str, tuple[str, float]]:
    """The best part alone of each setting, and the predictor's share less its own, at the first proposal."""
    best: dict[str, tuple[str, float]] = {}
    for (setting,), own in _by_setting(rows).items():
        shares = {row["method"]: row["share"] for row in own if row["measured"] == 0}
        part = max((name for name in PARTS if name in shares), key=lambda name: shares[name])
        best[setting] = part, shares[METHODS[0]] - shares[part]
    return best


def _by_setting(rows: Sequence[Row]) -> Mapping[tuple[str, ...], list[Row]]:
    settings: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        settings.setdefault((row["setting"],), []).append(row)
    return settings


def claim(rows: Sequence[Row]) -> str:
    """The sentence that compares the predictor with the best part of each setting."""
    listed = "; ".join(f"{setting}: {difference:+.3f} against {part} alone"
                       for setting, (part, difference) in differences(rows).items())
    return f"seqtune's first proposal, compared with that of the best of its parts alone, in shares: {listed}."


def page(results: Results) -> Page:
    """Make the page of the results."""
    options = f" --device {results['device']}" if results["device"] else ""
    measured = f" The libraries of examples/: {measured_on(results)}" if results["device"] else ""
    return Page(
        "parts", "The answer and its parts", claim(results["rows"]),
        f"python -m benchmarks parts{options} --out docs", table(results["rows"]),
        evaluated(results, "the shipped data set").replace("; nothing was measured again.", ".") + measured,
        "Shares of the best known speed, as geometric means over problems, with 95 % intervals (bootstrap of the "
        "problems; the devices and draws of a problem are drawn together). `†`: better than seqtune. A `library` "
        f"is one kernel of ours on one device: {LIBRARIES} of them; the others are libraries of examples/. A "
        f"checkpoint is trained on the number of problems in the first column, with {CONFIGURATIONS} configurations of "
        "each, and evaluated on other problems that are not near. The best part is chosen with these figures in "
        "view, so it has the advantage.",
        (f"The held-out cases are answered by the checkpoint `{results['checkpoint']}`.",
         f"{results['draws']} trainings for each library and size."))
