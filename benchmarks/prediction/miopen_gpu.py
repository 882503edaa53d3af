"""Adapt to a GPU that training has not seen: `python -m benchmarks miopen_gpu FOLDER --work WORK [--out docs]`.

For each solver with at least 2000 labels of that GPU, chains of boosted trees are trained on the other GPUs alone, on
the other GPUs and a few labels of this one (each counted several times), and on the same few labels alone. All are
evaluated on the GPU's held-out problems, which are held out on the other GPUs, too. The trees train in seconds; the
transformer is left out here. WORK stores finished solvers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common.page import Page, Results, add_out, check_ready, evaluated, publish
from benchmarks.common.program import OneLineParser
from benchmarks.common.report import BLACK, GREY, Row, markdown, save, style, today, write_json
from seqtune.errors import MisuseError
from seqtune.predictor.translator.threads import one_thread

if TYPE_CHECKING:
    from seqtune.data.labels import Labels
    from seqtune.predictor.labels.classifier_chain import KernelChain

SHOTS = (0, 50, 200, 1000, 2000)
LEAST = 2000  # labels of the GPU that a solver needs, including the held-out tenth
WEIGHT = 8  # number of copies of each of the GPU's labels among those of other GPUs


def judge_solver(kernel: str, fitting: Labels, judged: Labels, number: int) -> list[Row]:
    """Make a row for each number of labels; `number` is the index of the GPU among the devices of the labels."""
    import numpy as np

    from seqtune.predictor.labels.classifier_chain import ChainOptions, KernelChain

    own = fitting.take(np.flatnonzero(fitting.queries.device == number))
    others = fitting.take(np.flatnonzero(fitting.queries.device != number))
    order = np.random.default_rng(0).permutation(len(own))
    options = ChainOptions(rounds=100, rate=0.1, columns=0.5, threads=1)
    rows = []
    for count in SHOTS:
        print(f"{kernel}: {count} labels", file=sys.stderr, flush=True)
        few = own.take(order[:count])
        row: Row = {"solver": kernel.removeprefix("miopen."), "n": len(judged), "labels": count}
        if len(others):
            row["adapted"] = _score(KernelChain.fit(together(few, others), options), judged)
        if count:
            row["scratch"] = _score(KernelChain.fit(few, options), judged)
        rows.append(row)
    return rows


def together(few: Labels, others: Labels) -> Labels:
    """Join WEIGHT copies of the GPU's labels and the labels of the other GPUs."""
    import numpy as np

    problem = np.concatenate([np.tile(few.queries.problem, WEIGHT), others.queries.problem])
    device = np.concatenate([np.tile(few.queries.device, WEIGHT), others.queries.device])
    return replace(others, queries=replace(others.queries, problem=problem, device=device),
                   places=np.concatenate([np.tile(few.places, (WEIGHT, 1)), others.places]))


def _score(chain: KernelChain, judged: Labels) -> dict[str, float]:
    from seqtune.predictor.labels.classifier_chain import ANY, ChainWords
    from seqtune.predictor.labels.methods import Beam
    from seqtune.predictor.labels.scores import judge
    from seqtune.predictor.labels.training import vocabulary_of

    name = judged.kernel.name
    words = ChainWords({(ANY, name): chain}, vocabulary_of({name: judged}, None))
    (row,) = judge(Beam(words), {name: judged})
    return {"exact": row.score.exact, "per_parameter": row.score.per_parameter}


def means(rows: Sequence[Row]) -> list[Row]:
    """Make a row for each number of labels: means over the solvers."""
    mean_rows = []
    for count in SHOTS:
        group = [row for row in rows if row["labels"] == count]
        row: Row = {"labels": count}
        for training in ("adapted", "scratch"):
            if all(training in member for member in group):
                row[training] = {metric: sum(member[training][metric] for member in group) / len(group)
                            for metric in ("exact", "per_parameter")}
        mean_rows.append(row)
    return mean_rows


def table(rows: Sequence[Row]) -> str:
    """Make the table: a line for each number of labels."""
    def cells(row: Mapping[str, dict[str, float]], training: str) -> list[str]:
        return [f"{row[training][metric]:.3f}" if training in row else "" for metric in ("exact", "per_parameter")]

    return markdown(["labels of the new GPU", "exact, after others", "per parameter", "exact, from scratch",
                     "per parameter"],
                    [[str(row["labels"]), *cells(row, "adapted"), *cells(row, "scratch")] for row in rows])


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Draw both metrics over the number of labels."""
    pyplot = style()
    figure, axes = pyplot.subplots(1, 2, figsize=(8.4, 3.0))
    for axis, metric in zip(axes, ("exact", "per_parameter"), strict=True):
        for training, colour, label in (("adapted", BLACK, "after other GPUs"), ("scratch", GREY, "from scratch")):
            points = [(index, row[training][metric]) for index, row in enumerate(rows) if training in row]
            axis.plot([index for index, _ in points], [value for _, value in points], "o-", color=colour, label=label)
        axis.set_xticks(range(len(rows)), [str(row["labels"]) for row in rows])
        axis.set_xlabel("labels of the new GPU, per solver")
        axis.set_title(metric.replace("_", " "), loc="left")
    axes[0].legend(frameon=False)
    save(figure, path)


def page(results: Results) -> Page:
    """Make the page of the results."""
    by_labels = {row["labels"]: row for row in results["means"]}
    solvers = list(dict.fromkeys(row["solver"].removeprefix("miopen.") for row in results["rows"]))
    few = by_labels[200]
    return Page(
        "miopen_gpu", "MIOpen: a GPU that training has not seen",
        f"Boosted trees that learned MIOpen's labels on other GPUs and 200 labels of {results['without']} predict "
        f"{few['adapted']['exact']:.3f} of its held-out labels exactly; trees that learned the 200 alone, "
        f"{few['scratch']['exact']:.3f}.",
        "python -m benchmarks miopen_gpu FOLDER --work unfinished --out docs", table(results["means"]),
        evaluated(results, "MIOpen's perf-dbs in FOLDER"),
        f"`exact`: the share of labels that the first proposal predicts completely. Means of the solvers with 2000 "
        f"labels of this GPU: {', '.join(solvers)}.",
        ("After training on other GPUs, 200 labels of the new one are worth about 500 from scratch.",
         "Only chains of boosted trees were trained; the transformer, which is slower to train, is left out."),
        "Exact predictions over the number of labels of the new GPU")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    import numpy as np

    from seqtune.data.formats.miopen_import import read_files
    from seqtune.data.formats.table import find_files
    from seqtune.data.labels import read_labels

    parser = OneLineParser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--without", metavar="GPU", default="gfx900_56")
    parser.add_argument("--solvers", help="names of solvers, separated by commas [default: all]")
    add_out(parser)
    given = parser.parse_args(arguments)
    check_ready(given.out)
    data = read_files([file for file in find_files("miopen", [given.folder]) if "fdb" not in file.name])[0]
    rows: list[Row] = []
    with one_thread():
        for kernel, labels in read_labels(data).items():
            numbers = [number for number, device in enumerate(labels.queries.devices)
                       if device.name == f"miopen:{given.without}"]
            known_labels = labels.known()
            if not numbers or (known_labels.queries.device == numbers[0]).sum() < LEAST:
                continue
            if given.solvers and kernel.removeprefix("miopen.") not in given.solvers.split(","):
                continue
            path = given.work / "gpu" / f"{kernel}.json"
            if not path.is_file():
                fitting, judged = known_labels.split()
                path.parent.mkdir(parents=True, exist_ok=True)
                write_json(path, judge_solver(kernel, fitting, judged.take(
                    np.flatnonzero(judged.queries.device == numbers[0])), numbers[0]))
            rows += json.loads(path.read_text())
    if not rows:
        raise MisuseError(f"no solver has {LEAST} labels of {given.without}")
    mean_rows = means(rows)
    print(table(mean_rows))
    publish(given.out, page, {"date": today(), "without": given.without, "means": mean_rows, "rows": rows},
            lambda path: draw(path, mean_rows))
