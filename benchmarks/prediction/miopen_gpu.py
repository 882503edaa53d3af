"""A GPU that training has not seen: `python -m benchmarks.miopen_gpu FOLDER --work WORK [--out docs]`.

Per solver with at least 2000 labels of that GPU: chains of boosted trees that have learned from the other GPUs alone,
from them and a few of its labels (each counted several times), and from as many of its labels alone, all judged on the
GPU's held-out problems, which are held out on the other GPUs, too. The trees are what learns in seconds; the
transformer beside them is left out here. WORK keeps what is finished.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common.page import Page, Results, add_out, check_ready, evaluated, publish
from benchmarks.common.program import run_program
from benchmarks.common.report import BLACK, GREY, Row, markdown, save, style, today, write_json
from seqtune.errors import MisuseError
from seqtune.predictor.networks.threads import one_thread

if TYPE_CHECKING:
    from seqtune.data.labels import Labels
    from seqtune.predictor.labels.classifier_chain import KernelChain

SHOTS = (0, 50, 200, 1000, 2000)
LEAST = 2000  # labels of the GPU that a solver needs, less the held-out tenth
WEIGHT = 8  # how often a label of the GPU counts among those of others


def judge_solver(kernel: str, fitting: Labels, judged: Labels, number: int) -> list[Row]:
    """A row per number of labels; `number` is the GPU's among the devices of the labels."""
    import numpy as np

    from seqtune.predictor.labels.classifier_chain import ChainOptions, KernelChain

    mine = fitting.take(np.flatnonzero(fitting.questions.device == number))
    others = fitting.take(np.flatnonzero(fitting.questions.device != number))
    order = np.random.default_rng(0).permutation(len(mine))
    options = ChainOptions(rounds=100, rate=0.1, columns=0.5, threads=1)
    rows = []
    for count in SHOTS:
        print(f"{kernel}: {count} labels", file=sys.stderr, flush=True)
        few = mine.take(order[:count])
        row: Row = {"solver": kernel.removeprefix("miopen."), "n": len(judged), "labels": count}
        if len(others):
            row["adapted"] = _score(KernelChain.fit(together(few, others), options), judged)
        if count:
            row["scratch"] = _score(KernelChain.fit(few, options), judged)
        rows.append(row)
    return rows


def together(few: Labels, others: Labels) -> Labels:
    """The labels of the GPU, each several times, and those of the others."""
    import numpy as np

    problem = np.concatenate([np.tile(few.questions.problem, WEIGHT), others.questions.problem])
    device = np.concatenate([np.tile(few.questions.device, WEIGHT), others.questions.device])
    return replace(others, questions=replace(others.questions, problem=problem, device=device),
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
    """A row per number of labels: means over the solvers."""
    found = []
    for count in SHOTS:
        mine = [row for row in rows if row["labels"] == count]
        row: Row = {"labels": count}
        for way in ("adapted", "scratch"):
            if all(way in one for one in mine):
                row[way] = {metric: sum(one[way][metric] for one in mine) / len(mine)
                            for metric in ("exact", "per_parameter")}
        found.append(row)
    return found


def table(rows: Sequence[Row]) -> str:
    """A line per number of labels."""
    def cells(row: Mapping[str, dict[str, float]], way: str) -> list[str]:
        return [f"{row[way][metric]:.3f}" if way in row else "" for metric in ("exact", "per_parameter")]

    return markdown(["labels of the new GPU", "exact, after others", "per parameter", "exact, from scratch",
                     "per parameter"],
                    [[str(row["labels"]), *cells(row, "adapted"), *cells(row, "scratch")] for row in rows])


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Both curves, for both metrics."""
    pyplot = style()
    figure, axes = pyplot.subplots(1, 2, figsize=(8.4, 3.0))
    for axis, metric in zip(axes, ("exact", "per_parameter"), strict=True):
        for way, colour, label in (("adapted", BLACK, "after other GPUs"), ("scratch", GREY, "from scratch")):
            mine = [(place, row[way][metric]) for place, row in enumerate(rows) if way in row]
            axis.plot([place for place, _ in mine], [value for _, value in mine], "o-", color=colour, label=label)
        axis.set_xticks(range(len(rows)), [str(row["labels"]) for row in rows])
        axis.set_xlabel("labels of the new GPU, per solver")
        axis.set_title(metric.replace("_", " "), loc="left")
    axes[0].legend(frameon=False)
    save(figure, path)


def page(found: Results) -> Page:
    """The page of the result."""
    by_labels = {row["labels"]: row for row in found["means"]}
    solvers = list(dict.fromkeys(row["solver"].removeprefix("miopen.") for row in found["rows"]))
    few = by_labels[200]
    return Page(
        "miopen_gpu", "MIOpen: a GPU that training has not seen",
        f"Boosted trees that learned MIOpen's labels on other GPUs and 200 labels of {found['without']} predict "
        f"{few['adapted']['exact']:.3f} of its held-out labels exactly; trees that learned the 200 alone, "
        f"{few['scratch']['exact']:.3f}.",
        "python -m benchmarks.miopen_gpu FOLDER --work unfinished --out docs", table(found["means"]),
        evaluated(found, "MIOpen's perf-dbs in FOLDER"),
        f"`exact`: the share of labels that the first proposal predicts completely. Means of the solvers with 2000 "
        f"labels of this GPU: {', '.join(solvers)}.",
        ("After other GPUs, 200 labels are worth about 500 from scratch.",
         "Chains of boosted trees alone; the transformer, which is slower to train, is left out."),
        "Exact predictions over the number of labels of the new GPU")


def main() -> None:
    import numpy as np

    from seqtune.data.formats.miopen_import import read_files
    from seqtune.data.formats.table import find_files
    from seqtune.data.labels import read_labels

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--without", metavar="GPU", default="gfx900_56")
    parser.add_argument("--solvers", help="some of them, with commas between")
    add_out(parser)
    given = parser.parse_args()
    check_ready(given.out)
    data = read_files([file for file in find_files("miopen", [given.folder]) if "fdb" not in file.name])[0]
    rows: list[Row] = []
    with one_thread():
        for kernel, labels in read_labels(data).items():
            numbers = [number for number, device in enumerate(labels.questions.devices)
                       if device.name == f"miopen:{given.without}"]
            known = labels.known()
            if not numbers or (known.questions.device == numbers[0]).sum() < LEAST:
                continue
            if given.solvers and kernel.removeprefix("miopen.") not in given.solvers.split(","):
                continue
            path = given.work / "gpu" / f"{kernel}.json"
            if not path.is_file():
                fitting, judged = known.split()
                path.parent.mkdir(parents=True, exist_ok=True)
                write_json(path, judge_solver(kernel, fitting, judged.take(
                    np.flatnonzero(judged.questions.device == numbers[0])), numbers[0]))
            rows += json.loads(path.read_text())
    if not rows:
        raise MisuseError(f"no solver has {LEAST} labels of {given.without}")
    found = means(rows)
    print(table(found))
    publish(given.out, page, {"date": today(), "without": given.without, "means": found, "rows": rows},
            lambda path: draw(path, found))


if __name__ == "__main__":
    run_program("miopen_gpu", main)
