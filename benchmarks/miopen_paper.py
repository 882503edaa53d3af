"""The paper's experiment on MIOpen's own data: `python -m benchmarks.miopen_paper FOLDER --out results.json`.

FOLDER holds perf-dbs and find-dbs. A tenth of the problems is held out, the same for every GPU and solver; a checkpoint
that has not learned from them (`--checkpoint`, by default one trained here on the rest) and all baselines are judged on
them. `--without gfx900_56` adds what becomes of a GPU that the training has not seen: as it is, retrained with some of
its labels, and trained from scratch on as many.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from seqtune.api import evaluate_labels
from seqtune.data.dataset import Dataset
from seqtune.data.labels import Labels, read_labels
from seqtune.data.miopen import read_files
from seqtune.kernels.miopen_devices import device_of
from seqtune.labels import train_labels
from seqtune.miopen import find_files
from seqtune.predictor.labels.answers import Beam
from seqtune.predictor.labels.fitting import LabelOptions
from seqtune.predictor.labels.judge import judge
from seqtune.predictor.labels.training import Trained, train
from seqtune.predictor.labels.translator import LabelWords

FEW = 500  # training labels that a solver needs to count in the averages of `exact`
MANY = 5000  # and in those of `teacher_forced`
SHOTS = (0, 50, 200, 1000, 2000)


def summary(rows: Sequence[Mapping[str, Any]], counts: Mapping[str, int]) -> dict[str, Any]:
    """Averages over solvers, each the mean of its devices weighed by labels, of ours and of every baseline."""
    methods = ["seqtune", *rows[0].get("baselines", {})]
    found: dict[str, Any] = {}
    for metric, least in (("exact", FEW), ("per_parameter", FEW), ("teacher_forced", MANY)):
        for method in methods:
            values = []
            for solver in dict.fromkeys(str(row["solver"]) for row in rows):
                mine = [row if method == "seqtune" else row["baselines"][method] for row in rows
                        if row["solver"] == solver and counts[solver] >= least]
                if mine and mine[0][metric] is not None:
                    values.append(np.average([one[metric] for one in mine], weights=[one["n"] for one in mine]))
            if values:
                found.setdefault(metric, {})[method] = float(np.mean(values))
    return found


def new_gpu(labels: Mapping[str, Labels], name: str, options: LabelOptions) -> list[dict[str, Any]]:
    """A row per number of labels of the GPU that is left out: the means over its solvers with 2000 labels or more."""
    parts = {kernel: some.split() for kernel, some in labels.items()}
    number = next(place for place, device in enumerate(next(iter(labels.values())).questions.devices)
                  if device.name == name)
    mine = {kernel: fitting.take(np.flatnonzero(fitting.questions.device == number))
            for kernel, (fitting, _) in parts.items()}
    mine = {kernel: some for kernel, some in mine.items() if len(some) >= 1800}  # of 2000, a tenth is held out
    others = {kernel: fitting.take(np.flatnonzero(fitting.questions.device != number))
              for kernel, (fitting, _) in parts.items()}
    judged = {kernel: parts[kernel][1].take(np.flatnonzero(parts[kernel][1].questions.device == number))
              for kernel in mine}
    before = train({kernel: some for kernel, some in others.items() if len(some)}, None, options, _say)
    rows = []
    for count in SHOTS:
        generator = np.random.default_rng(count)
        few = {kernel: some.take(generator.permutation(len(some))[:count]) for kernel, some in mine.items()}
        adapted, scratch = before, None
        if count:
            rehearsed = {kernel: _both(few.get(kernel), others[kernel], 4 * count) for kernel in others}
            adapted = train({kernel: some for kernel, some in rehearsed.items() if len(some)}, None,
                            replace(options, epochs=max(4, options.epochs // 3), rate=options.rate / 3), _say, before)
            scratch = train(few, None, options, _say)
        rows.append({"labels": count, "adapted": _means(adapted, judged),
                     "scratch": None if scratch is None else _means(scratch, judged)})
    return rows


def _both(few: Labels | None, others: Labels, most: int) -> Labels:
    """The new labels, each several times, among some of the old ones."""
    old = np.random.default_rng(0).permutation(len(others))[:most]
    if few is None or not len(few):
        return others.take(old)
    problem = np.concatenate([np.tile(few.questions.problem, 4), others.questions.problem[old]])
    device = np.concatenate([np.tile(few.questions.device, 4), others.questions.device[old]])
    return replace(few, questions=replace(few.questions, problem=problem, device=device),
                   places=np.concatenate([np.tile(few.places, (4, 1)), others.places[old]]))


def _means(trained: Trained, judged: Mapping[str, Labels]) -> dict[str, float]:
    rows = judge(Beam(LabelWords(trained.model, trained.vocabulary)), judged)
    return {"exact": float(np.mean([row.score.exact for row in rows])),
            "per_parameter": float(np.mean([row.score.per_parameter for row in rows]))}


def _say(step: Any) -> None:
    print(step.text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, help="where it is, or else will be kept", required=True)
    parser.add_argument("--epochs", type=int, default=LabelOptions().epochs)
    parser.add_argument("--without", metavar="GPU", help="also leave that GPU out")
    given = parser.parse_args()
    files = find_files([given.folder])
    options = LabelOptions(epochs=given.epochs)
    data: Dataset = read_files(files)[0]
    if not given.checkpoint.exists():
        train_labels(data, given.checkpoint, options, progress=_say, say=print)
    labels = read_labels(data)
    rows = evaluate_labels(files, checkpoint=given.checkpoint, baselines=True, by=True, progress=print)
    counts = {name.removeprefix("miopen."): int((~some.questions.held_out).sum()) for name, some in labels.items()}
    found: dict[str, Any] = {"rows": rows, "means": summary([row for row in rows if "solver" in row], counts)}
    if given.without:
        found["without"] = new_gpu(labels, device_of(Path(f"{given.without}.db"), ()).name, options)
    given.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found["means"], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
