"""The learning curve: `python -m benchmarks learning_curve --out docs` says what more labelled problems bring.

The translator learns from measured problems and from sampled ones whose times a teacher, boosted trees, estimates. Each
training has another number of sampled problems or another width, and otherwise the recipe's options. Validation
problems, which neither the teacher nor a translator learns from, give the shares of the best measured speed that the
first proposals reach. The agreement is the share of the teacher's best speed, by the teacher's own times, that the
translator's first proposal reaches on fresh sampled problems: it has no noise of measurements. The held-out problems
are evaluated once, with the training whose agreement is the highest.

A program that is stopped, by Ctrl-C or --minutes, goes on where it ended when it is called again.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.evaluation import merged_devices
from benchmarks.common.finished import Finished, checksum
from benchmarks.common.page import Page, Results, add_out, check_ready, evaluated, publish
from benchmarks.common.program import OneLineParser, minutes, positive
from benchmarks.common.progress import say
from benchmarks.common.report import Row, interval, markdown, today
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.errors import SeqtuneError
from seqtune.figures.picture import panel, save, style
from seqtune.predictor.learning.tasks.shares import OURS
from seqtune.tuner.measuring.deadline import Deadline

if TYPE_CHECKING:
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.task import MeasuredTask
    from seqtune.predictor.checkpoint import Checkpoint
    from seqtune.predictor.learning.options import TrainingOptions
    from seqtune.predictor.learning.tasks.examples import Examples
    from seqtune.predictor.trees.ranker import Ranker

METHODS = ("transformer", "trees", OURS)
FRESH = 300  # fresh problems on which the teacher is imitated
FRESH_SEED = 1_000_000  # added to the seed, so that no training meets the fresh problems
SHORTLIST = 16  # proposals of the beam that the judge or the trees order


@dataclass(frozen=True)
class Material:
    """The data, the teacher that is fitted to their training part, and fresh problems: all trainings share them."""

    fitting: Sequence[MeasuredTask]
    validation: Sequence[MeasuredTask]
    held_out: Sequence[MeasuredTask]
    avoid: Sequence[Problem]
    teacher: Ranker
    examples: Examples

    @classmethod
    def of(cls, options: TrainingOptions) -> Material:
        """Read the shipped data set and fit the teacher."""
        from seqtune.data.measured_tasks import measured_tasks, split
        from seqtune.kernels.task import MeasuredTask
        from seqtune.predictor.learning.tasks.examples import make_examples, make_teacher, vocabulary_of
        from seqtune.predictor.learning.tasks.learning import LearnedProblems
        from seqtune.predictor.trees.ranker import Ranker

        data = read_dataset(None)
        learned = LearnedProblems.of(data, protect_held_out=True)
        measured = [task for task in learned.training if isinstance(task, MeasuredTask)]
        fitting, validation = split(measured, options.validation, options.seed)
        say(f"fitting the teacher to {len(fitting)} tasks")
        teacher = make_teacher(fitting, options)
        assert teacher is not None
        examples = make_examples(fitting, teacher, vocabulary_of(learned.training), options, learned.held_out)
        return cls(fitting, validation, measured_tasks(data, held_out=True), learned.held_out, Ranker.of(teacher),
                   examples)


def trained(material: Material, options: TrainingOptions, deadline: float) -> tuple[Checkpoint, Row] | None:
    """Train with these options; None if the deadline, a `time.monotonic`, ended the training."""
    from seqtune.predictor.checkpoint import Checkpoint
    from seqtune.predictor.learning.tasks.examples import Examples
    from seqtune.predictor.learning.tasks.training import fit, untrained

    sampled = material.examples.labelled
    assert sampled is not None
    examples = Examples(material.examples.measured, sampled.limited(options.extra))
    model, began = untrained(sampled.vocabulary, options), time.monotonic()
    state = fit(model, sampled.vocabulary, examples, [], options, say, began, deadline=deadline)
    if state.interrupted:
        raise KeyboardInterrupt
    if state.epoch < options.epochs:
        return None
    checkpoint = Checkpoint.of_translator(state.average.eval(), sampled.vocabulary, seed=options.seed,
                                          ranker=material.teacher)
    return checkpoint, {"extra": options.extra, "width": options.width, "epochs": state.epoch,
                        "parameters": sum(tensor.numel() for tensor in model.parameters()),
                        "loss": state.history[-1]["loss"], "seconds": time.monotonic() - began}


def agreement(checkpoint: Checkpoint, material: Material, options: TrainingOptions) -> dict[str, float]:
    """The shares of the teacher's best speed on fresh problems: of the first proposal, and of the best of SHORTLIST."""
    import numpy as np

    from seqtune.predictor.learning.tasks.sampled_problems import SampledProblems
    from seqtune.predictor.translator.threads import one_thread

    fresh = SampledProblems([(measured.problem, measured.device) for measured in material.fitting], material.avoid,
                            material.teacher.forests, options.seed + FRESH_SEED)
    proposer = replace(checkpoint, ranker=None).proposer()
    logs = np.empty((FRESH, 2))
    with one_thread():
        for number in range(FRESH):
            task = fresh.task(number)
            slowness = material.teacher.slowness(task, np.arange(len(task)))
            proposed = slowness[proposer.scored(task, SHORTLIST).numbers[:SHORTLIST]] - slowness.min()
            logs[number] = proposed[0], proposed.min()
    first, shortlist = np.exp(-logs.mean(axis=0)).tolist()
    return {"agreement": first, "shortlist": shortlist}


def shares(checkpoint: Checkpoint, tasks: Sequence[MeasuredTask]) -> dict[str, Row]:
    """The rows of the first proposals of the translator, the trees and both on measured tasks, by method."""
    from seqtune.predictor.checkpoint_parts import parts_of
    from seqtune.predictor.learning.tasks.evaluation import replayed
    from seqtune.predictor.learning.tasks.shares import rows
    from seqtune.predictor.translator.threads import one_thread

    with one_thread():
        outcomes = replayed(tasks, {OURS: checkpoint, **parts_of(checkpoint)}, METHODS, (0,))
    return {row.method: row.to_json() for row in rows(merged_devices(outcomes))}


def evaluated_training(material: Material, options: TrainingOptions, deadline: float, folder: Path) -> Row | None:
    """Train, keep the checkpoint in the folder, and evaluate it on validation problems and fresh ones."""
    result = trained(material, options, deadline)
    if result is None:
        return None
    checkpoint, row = result
    checkpoint.save(folder)
    return {**row, **agreement(checkpoint, material, options), "validation": shares(checkpoint, material.validation)}


def table(rows: Sequence[Row]) -> str:
    """Make the table: a line for each training."""
    lines = [[f"{row['extra']:,}", f"{row['width']}", f"{row['parameters'] / 1e6:.2f}", f"{row['epochs']}",
              f"{row['seconds'] / 60:.0f}", f"{row['agreement']:.4f}", f"{row['shortlist']:.4f}",
              *(_share(row["validation"][method]) for method in METHODS)] for row in rows]
    return markdown(["sampled problems", "width", "million weights", "epochs", "minutes", "agreement",
                     f"best of {SHORTLIST}", "translator", "trees", "both"], lines, left=0)


def _share(row: Row) -> str:
    return f"{row['share']:.3f} {interval(row['share_low'], row['share_high'])}"


def claim(results: Results) -> str:
    """The sentence with the figures that matter: the best training's agreement, and its held-out problems."""
    best, first = _best(results["rows"]), results["rows"][0]
    text = (f"With {best['extra']:,} sampled problems and {best['parameters'] / 1e6:.2f} million weights the "
            f"translator alone reaches {best['agreement']:.3f} of its teacher's best speed on fresh problems, with "
            f"{first['extra']:,} and {first['parameters'] / 1e6:.2f} million {first['agreement']:.3f}.")
    held_out: Mapping[str, Row] | None = results.get("held_out")
    if held_out is None:
        return text
    return (f"{text} On held-out problems its first proposal reaches {_share(held_out['transformer'])} of the best "
            f"measured speed, the trees alone {_share(held_out['trees'])}, both together {_share(held_out[OURS])}.")


def _best(rows: Sequence[Row]) -> Row:
    return max(rows, key=lambda row: float(row["agreement"]))


def page(results: Results) -> Page:
    """Make the page of the results."""
    return Page(
        "learning_curve", "The learning curve", claim(results), command(results), table(results["rows"]),
        evaluated(results, "the shipped data set"),
        "Each line is a training with another number of sampled problems, which a teacher labels, or another width, "
        f"and otherwise the options of `{results['recipe']}`. The agreement is the share of the teacher's best speed "
        f"that the translator's first proposal reaches on {FRESH} fresh problems, by the teacher's own times; beside "
        f"it is that of the best of the beam's {SHORTLIST} proposals. The shares of the translator, the trees and both "
        "are those of first proposals on validation problems, by measured times, with 95 % intervals of a bootstrap of "
        "the problems.",
        ("The validation problems were split off the training part; neither the teacher nor a translator learned from "
         "them. Held-out problems were evaluated with one training, the one of the highest agreement.",),
        "Agreement with the teacher over the number of sampled problems")


def command(results: Results) -> str:
    """The command that makes these results."""
    extra, width = (" ".join(map(str, sorted({row[name] for row in results["rows"]}))) for name in ("extra", "width"))
    return (f"python -m benchmarks learning_curve --extra {extra} --width {width} --epochs {results['epochs']} "
            "--out docs")


@style()
def draw(results: Results, path: Path) -> None:
    """Draw the agreement over the number of sampled problems, with a line for each width."""
    rows = results["rows"]
    figure, axis = panel((5.4, 3.4))
    for width in sorted({row["width"] for row in rows}):
        own = sorted((row for row in rows if row["width"] == width), key=lambda row: int(row["extra"]))
        counts = [row["extra"] for row in own]
        line = axis.plot(counts, [row["agreement"] for row in own], marker="o", markersize=4)[0]
        axis.plot(counts, [row["shortlist"] for row in own], linestyle=":", color=line.get_color())
        axis.annotate(f"width {width}", (counts[-1], own[-1]["agreement"]), xytext=(6, 0),
                      textcoords="offset points", va="center", color=line.get_color())
    numbers = sorted({row["extra"] for row in rows})
    axis.set_xscale("symlog", linthresh=min(filter(None, numbers), default=1), linscale=0.5)  # 0 has a place, too
    axis.set_xticks(numbers, [f"{number:,}" for number in numbers])
    axis.set_xticks([], minor=True)
    axis.set_xlabel(f"sampled problems (dotted: the best of {SHORTLIST} proposals)", loc="left")
    axis.set_ylabel("share of the teacher's best speed")
    save(figure, path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    add_out(parser)
    parser.add_argument("--recipe", default="default", help="a recipe, whose other options every training has")
    parser.add_argument("--extra", type=int, nargs="+", default=[0, 3000, 10_000, 30_000], help="sampled problems")
    parser.add_argument("--width", type=positive, nargs="+", help="widths of the network [default: the recipe's]")
    parser.add_argument("--epochs", type=positive, help="of every training [default: the recipe's]")
    parser.add_argument("--threads", type=positive, help="[default: the recipe's]")
    parser.add_argument("--minutes", type=minutes, default=math.inf, help="time after which the program ends")
    parser.add_argument("--work", type=Path, help="folder of the trainings [default: in the user's cache folder]")
    run(parser.parse_args(arguments))


def run(given: argparse.Namespace) -> None:
    """Do the trainings, and write the results."""
    import platformdirs

    from seqtune.predictor.checkpoint import Checkpoint
    from seqtune.predictor.learning.recipe import Recipe
    from seqtune.predictor.training.state import describe

    check_ready(given.out)
    recipe = Recipe.read(given.recipe)
    options = replace(recipe.options, epochs=given.epochs or recipe.options.epochs,
                      threads=given.threads or recipe.options.threads, extra=max([1, *given.extra]))
    work: Path = given.work or Path(platformdirs.user_cache_dir("seqtune")) / "learning_curve"
    finished, end = Finished(work, Deadline(60 * given.minutes)), time.monotonic() + 60 * given.minutes
    material = Material.of(options)
    sampled = material.examples.labelled
    assert sampled is not None
    rows: list[Row] = []
    folders: dict[str, Path] = {}  # of the checkpoints, by what their training depends on
    for width in given.width or [options.width]:
        for extra in given.extra:
            wider = width / options.width
            own = replace(options, extra=extra, width=width, hidden=round(options.hidden * wider))
            names = ("extra", extra, "width", width, checksum({
                "options": {**describe(own), "threads": None}, "problems": sampled.digest().hex()}))
            folder = finished.path(*names, suffix="")
            row = finished.get(names, lambda own=own, folder=folder: evaluated_training(  # type: ignore[misc]
                material, replace(own, state=folder.with_name(f"{folder.name}-training")), end, folder))
            if row is None:
                raise SeqtuneError(f"the time ended in the training with {extra} sampled problems; the same command "
                                   "goes on")
            folders[checksum(row)] = folder
            rows.append(row)
            say(table(rows))
    best = Checkpoint.load(folders[checksum(_best(rows))])
    results: dict[str, Any] = {"date": today(), "recipe": recipe.name, "epochs": options.epochs, "rows": rows,
                               "held_out": shares(best, material.held_out)}
    publish(given.out, page, results, partial(draw, results))
    print(f"{table(rows)}\n\n{claim(results)}")
