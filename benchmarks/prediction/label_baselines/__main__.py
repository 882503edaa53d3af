"""Judge a label checkpoint beside other methods: `python -m benchmarks label_baselines PATH... --checkpoint C`.

PATH are MIOpen's perf-dbs and find-dbs, or folders of them. As in `seqtune evaluate miopen`, the labels and solver
timings that the checkpoint has not learned from are judged. The baselines are fitted, in minutes, to those that it has
learned from and that are not held out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from benchmarks.common.program import OneLineParser
from benchmarks.common.report import Row
from seqtune.cli import tables
from seqtune.data.dataset import Dataset
from seqtune.data.formats.miopen_import import read_files
from seqtune.data.formats.table import find_files
from seqtune.data.labels import Labels, SolverTimings, read_labels, read_solver_timings
from seqtune.errors import MisuseError
from seqtune.predictor.checkpoint_folder import find, model_type
from seqtune.predictor.labels.label_evaluation import training_part, unlearned
from seqtune.predictor.labels.methods import Beam, LabelMethod
from seqtune.predictor.labels.model import LabelModel
from seqtune.predictor.labels.scores import judge, solver_choice_rows
from seqtune.predictor.labels.solver_choice import choose
from seqtune.predictor.say import Say
from seqtune.predictor.translator.threads import one_thread

from .solver_trees import TreeChoice, with_trees
from .table import fit_baselines


def judged_beside_baselines(checkpoint: LabelModel, data: Dataset, say: Say) -> list[Row]:
    """A row for each method, device and solver, then a row for each device about the choice of solvers.

    A kind of baseline is left out, and `say` receives the reason, where there is less to learn from than to judge.
    Raises MisuseError if nothing is left to judge.
    """
    labels, timings = read_labels(data), read_solver_timings(data)
    judged, judged_timings = unlearned(checkpoint, labels, timings, say)
    fitting, fitting_timings = training_part(
        {name: _learned(labels[name].spoken_by(checkpoint.kernels()[name]), checkpoint) for name in judged},
        None if timings is None else timings.take(np.flatnonzero(checkpoint.learned.contains(timings.hashes))))
    with one_thread():
        methods: dict[str, LabelMethod] = {"seqtune": Beam(checkpoint.next_word()), **_fitted(judged, fitting, say)}
        rows = [{"device": row.device, "solver": row.solver, "method": title, **asdict(row.score)}
                for title, method in methods.items() for row in judge(method, judged, progress=say)]
        rows.sort(key=lambda row: (row["solver"], row["device"]))  # the methods keep their order
        if judged_timings is not None and len(judged_timings):
            rows += _choice_rows(checkpoint, judged_timings, fitting_timings, say)
    return rows


def _learned(labels: Labels, checkpoint: LabelModel) -> Labels:
    return labels.take(np.flatnonzero(checkpoint.learned.contains(labels.queries.hashes))).known()


def _fitted(judged: Mapping[str, Labels], fitting: Mapping[str, Labels], say: Say) -> Mapping[str, LabelMethod]:
    """The baselines by name; none where a kernel has fewer labels to learn from than to judge."""
    lacking = ", ".join(name for name, part in judged.items() if len(fitting.get(name, ())) < len(part))
    if lacking:
        say(f"no baselines: they need more labels than are judged; also name perf-dbs with labels of {lacking}")
    return {} if lacking or not judged else fit_baselines(fitting, say)


def _choice_rows(checkpoint: LabelModel, judged: SolverTimings, fitting: SolverTimings | None,
                 say: Say) -> list[Row]:
    rows = solver_choice_rows(judged, choose(checkpoint.translator, judged))
    if fitting is None or len(fitting) < len(judged):
        say("no boosted trees for the choice of solvers: they need more timings than are judged; also name the "
            "find-dbs that hold them")
        return [row.to_json() for row in rows]
    return with_trees(rows, solver_choice_rows(judged, TreeChoice(fitting).choose(judged)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("paths", metavar="PATH", nargs="+", type=Path)
    parser.add_argument("--checkpoint", required=True, help="a checkpoint of labels, such as `miopen`")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    given: argparse.Namespace = parser.parse_args(arguments)
    if model_type(find(given.checkpoint)) != LabelModel.model_type:
        raise MisuseError(f"{given.checkpoint} is not a checkpoint of labels")
    rows = judged_beside_baselines(LabelModel.load(given.checkpoint), read_files(find_files("miopen", given.paths))[0],
                                   lambda step: print(step, file=sys.stderr, flush=True))
    if given.json:
        print(json.dumps({"rows": rows}))
    else:
        for shown in ([row for row in rows if ("solver" in row) == solvers] for solvers in (True, False)):
            tables.rows(shown)
