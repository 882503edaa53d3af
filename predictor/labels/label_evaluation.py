"""Evaluation of a label checkpoint: how often it predicts the tuner's configuration, and how fast its solvers are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from seqtune.data.dataset import Dataset
from seqtune.data.labels import Labels, SolverTimings, read_labels, read_solver_timings
from seqtune.errors import MisuseError, check_installed

from ..networks.threads import one_thread
from ..say import Say, silent
from .checkpoint import LabelCheckpoint
from .methods import Beam, LabelMethod
from .scores import Entries, LabelRow, SolverChoiceRow, judge, solver_choice_rows
from .solver_choice import TreeChoice, choose

BY = ("direction", "dtype")  # features whose values get a part each


def evaluate_labels(checkpoint: LabelCheckpoint, data: Dataset, *, baselines: bool = False, by_feature: bool = False,
                    progress: Say = silent, warn: Say = silent) -> list[LabelRow | SolverChoiceRow]:
    """Score a checkpoint: rows by device and solver for the labels of a data set, then by device for its timings.

    Only labels and timings that the checkpoint has not learned from are judged. With `baselines` the baselines are
    fitted on the other ones, except those of held-out problems; `by_feature` adds parts by direction and data type.
    Raises MisuseError if nothing is left to judge, and MissingPackageError for `baselines` without PyTorch.
    """
    if baselines:
        check_installed("train", "torch")
    labels, timings = read_labels(data), read_solver_timings(data)
    kernels = checkpoint.kernels()
    judged = {name: _unlearned(kernel_labels.spoken_by(kernels[name]), checkpoint)
              for name, kernel_labels in labels.items() if name in kernels}
    judged = {name: part for name, part in judged.items() if len(part)}
    checkpoint.vocabulary.check(kernels[name] for name in judged)
    judged_timings = None if timings is None else timings.take(
        np.flatnonzero(~checkpoint.learned.contains(timings.hashes)))
    if not judged and (judged_timings is None or not len(judged_timings)):
        raise MisuseError("nothing to judge: the checkpoint has learned from every problem in these files")
    skipped = sum(map(len, labels.values())) - sum(map(len, judged.values()))
    if skipped:
        warn(f"{skipped} labels are not judged: the checkpoint has learned from their problems, or lacks their solvers")
    fitting, fitting_timings = training_part(
        {name: _learned_from(labels[name].spoken_by(kernels[name]), checkpoint).known() for name in judged},
        None if timings is None else timings.take(np.flatnonzero(checkpoint.learned.contains(timings.hashes))))
    with one_thread():
        methods = _baselines(judged, fitting, progress, warn) if baselines and judged else {}
        rows: list[LabelRow | SolverChoiceRow] = [
            *judge(Beam(checkpoint.next_word()), judged, methods, BY if by_feature else (), progress)]
        if judged_timings is not None and len(judged_timings):
            progress("judging the choice of solvers")
            trees = _tree_choice(judged_timings, fitting_timings, warn) if baselines else None
            chosen = choose(checkpoint.translator, judged_timings)
            rows += solver_choice_rows(judged_timings, chosen, trees)
    return rows


def _baselines(judged: Mapping[str, Labels], fitting: Mapping[str, Labels], progress: Say,
               warn: Say) -> Mapping[str, LabelMethod]:
    lacking = ", ".join(name for name, part in judged.items() if len(fitting.get(name, ())) < len(part))
    if lacking:
        warn(f"no baselines: they need more labels than are judged; also name perf-dbs with labels of {lacking}")
        return {}
    from .baselines.table import fit_baselines  # loads PyTorch: some of the baselines are networks

    return fit_baselines(fitting, progress)


def _tree_choice(judged_timings: SolverTimings, fitting_timings: SolverTimings | None, warn: Say) -> Entries | None:
    """The entries that boosted trees choose; None if there are too few timings to learn from."""
    if fitting_timings is None or len(fitting_timings) < len(judged_timings):
        warn("no boosted trees for the choice of solvers: they need more timings than are judged; also name the "
             "find-dbs that hold them")
        return None
    return TreeChoice(fitting_timings).choose(judged_timings)


def judged_rows(checkpoint: LabelCheckpoint, labels: Mapping[str, Labels], timings: SolverTimings | None,
                say: Say = silent) -> list[dict[str, Any]]:
    """Score a checkpoint on the held-out problems: JSON objects by device and solver, then by device."""
    kernels = checkpoint.kernels()
    held_out = {name: kernel_labels.spoken_by(kernels[name]).split()[1]
                for name, kernel_labels in labels.items() if name in kernels}
    rows = [row.to_json() for row in judge(Beam(checkpoint.next_word()), held_out, progress=say)]
    if timings is not None:
        judged_timings = timings.take(np.flatnonzero(timings.queries.held_out))
        chosen = choose(checkpoint.translator, judged_timings)
        rows += [row.to_json() for row in solver_choice_rows(judged_timings, chosen)]
    return rows


def training_part(labels: Mapping[str, Labels],
                  timings: SolverTimings | None) -> tuple[dict[str, Labels], SolverTimings | None]:
    """The labels and timings of problems that are not held out, without kernels that have no such label."""
    training = {name: kernel_labels.split()[0] for name, kernel_labels in labels.items()}
    training_timings = None if timings is None else timings.take(np.flatnonzero(~timings.queries.held_out))
    return {name: part for name, part in training.items() if len(part)}, training_timings


def _learned_from(labels: Labels, checkpoint: LabelCheckpoint) -> Labels:
    return labels.take(np.flatnonzero(checkpoint.learned.contains(labels.queries.hashes)))


def _unlearned(labels: Labels, checkpoint: LabelCheckpoint) -> Labels:
    return labels.take(np.flatnonzero(~checkpoint.learned.contains(labels.queries.hashes)))
