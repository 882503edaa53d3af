"""The paper's experiment on MIOpen's own data: `python -m benchmarks.miopen_paper FOLDER --work WORK [--out docs]`.

FOLDER holds perf-dbs and find-dbs. A tenth of the problems is held out, the same for every GPU and solver; a checkpoint
that has not learned from them (`--checkpoint`, by default one that is trained in WORK on the rest), its parts, and all
baselines are judged on them. WORK keeps what is finished by method and solver, so that a second call goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.program import run_program
from benchmarks.common.report import BLACK, BLUE, GREY, ORANGE, SKY, Row, insert, markdown, save, style, write_json
from seqtune.errors import MisuseError
from seqtune.inputs import one_thread

if TYPE_CHECKING:
    import numpy as np

    from seqtune.data.labels import Labels, Races
    from seqtune.predictor.labels.checkpoint import LabelCheckpoint
    from seqtune.predictor.labels.methods import Method

FEW = 500  # training labels that a solver needs to count in the averages of `exact`
LARGE = 1000  # and to be looked at by itself
MANY = 5000  # and in the averages of `teacher_forced`
OURS = {"seqtune": "seqtune (both, beam 8)", "transformer": "its transformer alone", "chains": "its trees alone"}
EACH = {"majority": "majority", "nearest": "nearest neighbour", "trees": "chain of boosted trees, greedy",
        "tree_ranker": "boosted-tree ranker of candidates"}  # fitted to one solver at a time
JOINT = {"two_towers": "two-tower ranker of candidates", "lstm": "LSTM after KernelTuningNet, greedy"}
BASELINES = (*EACH, *JOINT)
METRICS = (("exact", FEW), ("exact_top5", FEW), ("per_parameter", FEW), ("teacher_forced", MANY))


def judge_all(files: Sequence[Path], checkpoint: LabelCheckpoint, work: Path, methods: Sequence[str],
              epochs: int) -> tuple[list[Row], dict[str, int]]:
    """A row per method, device and solver; and the numbers of training labels by solver."""
    from seqtune.data.formats.miopen_import import read_files
    from seqtune.data.labels import read_labels
    from seqtune.label_learning import baseline_options, fit_baselines
    from seqtune.predictor.labels.classifier_chain import ChainWords
    from seqtune.predictor.labels.methods import Beam
    from seqtune.predictor.labels.translator import LabelWords

    kernels = checkpoint.kernels()
    labels = {name: one.spoken_by(kernels[name]) for name, one in read_labels(read_files(files)[0]).items()}
    split = {name: one.split() for name, one in labels.items()}
    fitting = {name: part.known() for name, (part, _) in split.items() if len(part)}
    judged = {name: split[name][1] for name in sorted(fitting, key=lambda name: len(fitting[name]))
              if len(split[name][1])}
    if any(checkpoint.learned.knows(one.questions.hashes).mean() > 0.5 for one in judged.values()):
        raise MisuseError("the checkpoint has learned from the held-out problems; name another, or none to train one")
    options = baseline_options(epochs, threads=1)
    ours: dict[str, Callable[[], Method]] = {
        "seqtune": lambda: Beam(checkpoint.next_word()),
        "transformer": lambda: Beam(LabelWords(checkpoint.model, checkpoint.vocabulary)),
        "chains": lambda: Beam(ChainWords(checkpoint.chains, checkpoint.vocabulary)),
    }
    rows: list[Row] = []
    for title in methods:
        if title in EACH:
            for name in judged:
                rows += _kept(work, title, {name: judged[name]}, lambda name=name, title=title: fit_baselines(  # type: ignore[misc]
                    {name: fitting[name]}, options=options, names=(title,))[title])
        elif title in JOINT:
            kept = replace(options, state=work / f"{title}-state")
            rows += _kept(work, title, judged, lambda title=title, kept=kept: fit_baselines(  # type: ignore[misc]
                fitting, _say, kept, (title,))[title])
        else:
            rows += _kept(work, title, judged, ours[title])
    return rows, {name.removeprefix("miopen."): len(part) for name, part in fitting.items()}


def _kept(work: Path, title: str, judged: Mapping[str, Labels], make: Callable[[], Method]) -> Iterator[Row]:
    """The rows of a method, from WORK where they are; it is made when the first is missing."""
    from dataclasses import asdict

    from seqtune.predictor.labels.scores import judge

    method: Method | None = None
    for name, labels in judged.items():
        path = work / title / f"{name.removeprefix('miopen.')}.json"
        if not path.is_file():
            _say(f"{title}: {name}, {len(labels)} labels")
            method = method or make()
            found = [{"method": title, "device": row.device, "solver": row.solver, **asdict(row.score)}
                     for row in judge(method, {name: labels})]
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, found)
        yield from json.loads(path.read_text())


def summary(rows: Sequence[Row], counts: Mapping[str, int]) -> dict[str, dict[str, float]]:
    """Per method the averages over solvers, each the mean of its devices weighed by labels."""
    found: dict[str, dict[str, float]] = {}
    for method in dict.fromkeys(row["method"] for row in rows):
        for metric, least in METRICS:
            values = [value for solver, value in by_solver(rows, method, metric).items() if counts[solver] >= least]
            if values:
                found.setdefault(method, {})[metric] = sum(values) / len(values)
    return found


def by_solver(rows: Sequence[Row], method: str, metric: str) -> dict[str, float]:
    """Means over the labels of a solver's devices; nothing where the method cannot say."""
    sums: dict[str, list[float]] = {}
    for row in rows:
        if row["method"] == method and row[metric] is not None:
            mine = sums.setdefault(row["solver"], [0.0, 0.0])
            mine[0] += row[metric] * row["n"]
            mine[1] += row["n"]
    return {solver: total / count for solver, (total, count) in sums.items()}


def choice_rows(races: Races, checkpoint: LabelCheckpoint) -> list[Row]:
    """The choice of solvers, per device, beside a classifier of boosted trees fitted to the same races."""
    import numpy as np

    from seqtune.predictor.labels.scores import race_rows
    from seqtune.predictor.labels.solver_choice import TreeChoice, choose

    held_out: np.ndarray[Any, Any] = races.questions.held_out
    judged = races.take(np.flatnonzero(held_out))
    trees = TreeChoice(races.take(np.flatnonzero(~held_out)), threads=1).choose(judged)
    return [row.to_json() for row in race_rows(judged, choose(checkpoint.model, checkpoint.vocabulary, judged), trees)]


def table(found: Mapping[str, Mapping[str, float]]) -> str:
    """A line per method."""
    titles = OURS | EACH | JOINT
    return markdown(
        ["", "exact", "in five", "per parameter", "after the true prefix"],
        [[titles[method], *(f"{means[metric]:.3f}" if metric in means else "" for metric, _ in METRICS)]
         for method, means in found.items()])


def choice_table(rows: Sequence[Row]) -> str:
    """A line per device."""
    return markdown(
        ["GPU", "problems", "share", "best chosen", "boosted trees' share", "usual solver's share"],
        [[row["device"].removeprefix("miopen:"), f"{row['n']:,}", f"{row['share']:.3f}", f"{row['top1']:.3f}",
          f"{row['trees_share']:.3f}", f"{row['default_share']:.3f}"] for row in rows])


def draw(path: Path, rows: Sequence[Row], counts: Mapping[str, int]) -> None:
    """`exact` of each solver, by ours and by the baselines."""
    pyplot = style()
    shown = {"seqtune": (BLACK, "o"), "trees": (ORANGE, "s"), "nearest": (SKY, "v"), "lstm": (BLUE, "^"),
             "tree_ranker": (GREY, "D")}
    solvers = [solver for solver in sorted(counts, key=counts.__getitem__) if counts[solver] >= FEW]
    figure, axis = pyplot.subplots(figsize=(8.4, 6.4))
    for method, (colour, marker) in shown.items():
        values = by_solver(rows, method, "exact")
        mine = [(place, values[solver]) for place, solver in enumerate(solvers) if solver in values]
        if not mine:
            continue
        axis.plot([value for _, value in mine], [place for place, _ in mine], marker, color=colour,
                  label=(OURS | EACH | JOINT)[method], markersize=7 if method == "seqtune" else 5, alpha=0.9)
    axis.set_yticks(range(len(solvers)), [f"{solver}  {counts[solver]:,}" for solver in solvers])
    axis.set_xlabel("share of held-out labels told exactly")
    axis.grid(True, axis="both")
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    save(figure, path)


def _say(step: Any) -> None:
    print(getattr(step, "text", step), file=sys.stderr, flush=True)


def main() -> None:
    from seqtune.data.formats.miopen_import import read_files
    from seqtune.data.labels import read_races
    from seqtune.inputs import load_labels
    from seqtune.label_learning import train_labels
    from seqtune.miopen_exchange import find_files

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--checkpoint", help="one that knows no held-out problem")
    parser.add_argument("--methods", default=",".join((*OURS, *BASELINES)), help="some of them")
    parser.add_argument("--epochs", type=int, default=20, help="of the two-tower ranker and the LSTM")
    parser.add_argument("--out", type=Path, help="folder for the JSON file and the figure")
    parser.add_argument("--readme", type=Path, help="also put the tables between this page's comments")
    given = parser.parse_args()
    files = find_files([given.folder])
    place = given.checkpoint or given.work / "checkpoint"
    if given.checkpoint is None and not place.exists():
        train_labels(read_files(files)[0], place, progress=_say, say=_say)
    checkpoint = load_labels(place)
    with one_thread():
        rows, counts = judge_all([file for file in files if "fdb" not in file.name], checkpoint, given.work,
                                 given.methods.split(","), given.epochs)
        choice = given.work / "choice.json"
        if "seqtune" in given.methods.split(",") and not choice.is_file():
            _say("the choice of solvers")
            races = read_races(read_files([file for file in files if "fdb" in file.name])[0])
            write_json(choice, [] if races is None else choice_rows(races, checkpoint))
    chosen, means = json.loads(choice.read_text()) if choice.is_file() else [], summary(rows, counts)
    tables = f"{table(means)}\n\n{choice_table(chosen)}"
    print(tables)
    if given.out is not None:
        write_json(given.out / "miopen_paper.json", {"means": means, "training_labels": counts, "rows": rows,
                                                     "choice": chosen, "metrics": dict(METRICS)})
        draw(given.out / "miopen_paper.svg", rows, counts)
    if given.readme is not None:
        insert(given.readme, "miopen", tables)


if __name__ == "__main__":
    run_program("miopen_paper", main)
