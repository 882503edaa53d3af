"""Leave each family of GPUs out of tuners' choices: `python -m benchmarks gpu_choices FILE... --out docs`.

A FILE is a data set of choices (`seqtune import sglang|gemlite|aiter`). For each chip, a predictor learns from the
choices on all other chips and is asked for those on it: models that share a chip, such as MI300X and MI325X, are left
out together, and tables that were copied count once. `nearest` is the choice for the nearest problem on another chip;
`file` is the choice in the nearest of vLLM's and SGLang's files.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common.finished import Finished, checksum
from benchmarks.common.page import Page, Results, add_out, check_ready, evaluated, publish
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.progress import say
from benchmarks.common.report import Row, markdown, number, today
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.data.serving.nearest_choice import NearestChoices
from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.devices.accelerators import chip_of
from seqtune.predictor.candidate import Candidate

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.kernels.task import ChosenTask, Task
    from seqtune.predictor.learning.tasks.agreement import AgreementRow, Method

FEWEST = 20  # choices on a chip that is evaluated
MOST = 300  # choices on a chip that are evaluated, drawn with the seed
OUTSIDE = ("files", "out", "work", "chips")  # options that change no row
METHODS = {"seqtune": "trees and translator", "transformer": "translator alone", "trees": "trees alone",
           "experts": "trees, nearest problem and analytic model",  # earlier versions
           "nearest": "nearest problem on another chip", "file": "nearest file of another chip",
           "analytic": "analytic model"}


@dataclass(frozen=True)
class NearestFile:
    """The choice in the nearest file of another chip."""

    choices: NearestChoices

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        """The nearest choices that are valid here; there may be none."""
        return [[Candidate(configuration) for configuration
                 in self.choices.propose(task.problem, task.device, count)] for task in tasks]


def without(data: Dataset, chip: str) -> Dataset:
    """The data set without the rows of a chip's devices."""
    keys = [key for key, device in data.devices.items() if chip_of(device) != chip]
    return replace(data, rows=data.rows[data.rows["device"].isin(keys)])


def methods_without(data: Dataset, chip: str, training: Sequence[ChosenTask],
                    given: argparse.Namespace) -> dict[str, Method]:
    """The methods, none of which knows a choice of the chip."""
    from seqtune.predictor.learning.options import choice_options
    from seqtune.predictor.learning.tasks.agreement import ByAnalytic, ByPredictor, ByTrees, methods_of
    from seqtune.predictor.learning.tasks.baselines import Nearest
    from seqtune.predictor.learning.tasks.training import train_model
    from seqtune.predictor.trees.cost_trees import Trees
    from seqtune.predictor.trees.ranker import Ranker

    options = choice_options(seed=given.seed, threads=given.threads)
    methods: dict[str, Method]
    if given.trees_only:
        trees = replace(options.trees, threads=given.threads)
        methods = {"trees": ByTrees(Ranker.of(Trees(training, trees))), "analytic": ByAnalytic(),
                   "nearest": ByPredictor(Nearest(training))}
    else:
        if given.epochs is not None:
            options = replace(options, epochs=given.epochs)
        checkpoint, _ = train_model(training, [], options)
        methods = methods_of(checkpoint, training)
    with suppress(FormatError):  # choices of other projects
        methods["file"] = ByPredictor(NearestFile(NearestChoices(without(data, chip))))
    return methods


def evaluate_chip(data: Dataset, tasks: Sequence[ChosenTask], chip: str, given: argparse.Namespace) -> list[Row]:
    """Learn without a chip and compare the methods on its choices: rows by kernel and method."""
    from seqtune.predictor.learning.tasks.agreement import agreement_rows
    from seqtune.predictor.translator.threads import one_thread

    own = [task for task in tasks if chip_of(task.device) == chip]
    order = np.random.default_rng(given.seed).permutation(len(own))[:given.most]
    training = [task for task in tasks if chip_of(task.device) != chip]
    say(f"{chip}: learning from {len(training)} tasks, {len(order)} to evaluate")
    methods = methods_without(data, chip, training, given)
    with one_thread():
        rows: list[AgreementRow] = []
        for kernel in dict.fromkeys(task.task.kernels[0].name for task in tasks):
            part = [own[index] for index in np.sort(order).tolist() if own[index].task.kernels[0].name == kernel]
            rows += agreement_rows(methods, part, kernel)
    return [{"chip": chip, "kernel": row.device, "all": float(sum(task.weights.sum() for task in own
                                                                if task.task.kernels[0].name == row.device)),
             **asdict(row)} for row in rows]


def evaluate_data(path: Path, given: argparse.Namespace, finished: Finished) -> list[Row]:
    """The rows of a data set's chips that have enough choices."""
    from seqtune.data.chosen_tasks import chosen_tasks

    data = read_dataset(path)
    tasks = chosen_tasks(data)
    counts: dict[str, int] = {}
    for task in tasks:
        counts[chip_of(task.device)] = counts.get(chip_of(task.device), 0) + len(task.numbers)
    chips = [chip for chip, count in sorted(counts.items()) if count >= FEWEST]
    if len(counts) < 2:
        raise MisuseError(f"{path} has choices on {len(counts)} chips; two are needed to leave one out")
    chips = [chip for chip in chips if given.chips is None or chip in given.chips]
    about = checksum({**{name: value for name, value in vars(given).items() if name not in OUTSIDE}, "rows": len(data)})
    rows: list[Row] = []
    for chip in chips:
        of_chip = finished.get((path.stem, chip, about), partial(evaluate_chip, data, tasks, chip, given))
        rows += [{"data": path.stem, **row} for row in of_chip or []]
    return rows


def mean(rows: Sequence[Row], name: str) -> float | None:
    """The mean over chips and kernels, weighted by all choices there; None if a row has no value."""
    if not rows or any(row[name] is None for row in rows):
        return None
    return float(np.average([row[name] for row in rows], weights=[row["all"] for row in rows]))


def table(rows: Sequence[Row]) -> str:
    """A table of each data set: by chip and method, and over all chips."""
    lines = []
    for data in dict.fromkeys(row["data"] for row in rows):
        own = [row for row in rows if row["data"] == data]
        for chip in (*dict.fromkeys(row["chip"] for row in own), "all"):
            for method, title in METHODS.items():
                part = [row for row in own if row["method"] == method and chip in (row["chip"], "all")]
                if part:
                    rank = mean(part, "rank")
                    lines.append([data, chip, title, f"{sum(row['all'] for row in part):.0f}",
                                  *(number(mean(part, name)) for name in ("exact", "block", "per_parameter")),
                                  "" if rank is None else f"{100 * rank:.1f} %"])
    return markdown(["data", "left-out chip", "answer", "choices", "all", "block", "a parameter", "rank"], lines, 3)


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    claims = []
    for data in dict.fromkeys(row["data"] for row in rows):
        best = "seqtune" if any(row["data"] == data and row["method"] == "seqtune" for row in rows) else "trees"
        parts = {method: [row for row in rows if row["data"] == data and row["method"] == method] for method in METHODS}
        others = [f"{title} {value:.2f}" for method, title in METHODS.items()
                  if method != best and (value := mean(parts[method], "per_parameter")) is not None]
        share = mean(parts[best], "per_parameter") or 0.0
        claims.append(f"{data}: {METHODS[best]} give {share:.2f} of the chosen values ({'; '.join(others)}).")
    return Page(
        "gpu_choices", "Choices on GPUs that were left out",
        "How well are the choices of other tuners predicted on GPUs of a chip without any choice in the training? "
        + " ".join(claims),
        f"python -m benchmarks gpu_choices FILE...{results['options']} --out docs", table(rows),
        evaluated(results, "the choices in " + ", ".join(results["files"])),
        "Shares of choices that the first proposal equals, of choices whose block (rows, columns, depth) it has, and "
        "of parameters with the chosen value. `rank`: the median share of valid configurations that are expected to "
        "be faster than the chosen one, a mean over chips and kernels; 50 % is chance. Rows over all chips weigh them "
        "by their choices.",
        ("Two people who tuned one GPU for SGLang agree in all values of 0.27 of their choices, so no method can agree "
         "in most.",
         f"At most {results['most']} problems of a chip are evaluated.",
         "How much the analytic model is believed on new chips, before the other chips say otherwise, was set after "
         "such figures had been seen."))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="a data set of choices")
    parser.add_argument("--most", type=positive, default=MOST, help=f"problems of a chip to evaluate ({MOST})")
    parser.add_argument("--chips", type=lambda text: text.split(","), help="leave out these alone, with commas between")
    parser.add_argument("--trees-only", action="store_true", help="train no translator")
    parser.add_argument("--epochs", type=positive, help="of the translator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=positive, default=1)
    parser.add_argument("--work", type=Path, default=Path("gpu_choices"), help="folder of finished chips")
    add_out(parser)
    given = parser.parse_args(arguments)
    check_ready(given.out)
    finished = Finished(given.work)
    rows = [row for path in given.files for row in evaluate_data(path, given, finished)]
    words = [] if given.chips is None else ["--chips", ",".join(given.chips)]
    if given.trees_only:
        words.append("--trees-only")
    elif given.epochs is not None:
        words += ["--epochs", str(given.epochs)]
    results: dict[str, Any] = {"date": today(), "files": [path.name for path in given.files], "most": given.most,
                               "options": "".join(f" {word}" for word in words), "rows": rows}
    publish(given.out, page, results)
    print(table(rows))
