"""Evaluation of learned choices: how often it predicts the tuner's configuration, and how fast its solvers are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from seqtune.data.dataset import Dataset
from seqtune.data.labels import Labels, SolverTimings, read_labels, read_solver_timings
from seqtune.errors import MisuseError

from ...checkpoint import Checkpoint
from ...choices.seen_problems import SeenProblems
from ...say import Say, silent
from ...translator.threads import one_thread
from .predictors import Beam
from .scores import LabelRow, SolverChoiceRow, score_labels, solver_choice_rows
from .solver_choice import choose

BY = ("direction", "dtype")  # features whose values get a part each


def evaluate_labels(checkpoint: Checkpoint, data: Dataset, *, by_feature: bool = False,
                    progress: Say = silent, warn: Say = silent) -> list[LabelRow | SolverChoiceRow]:
    """Score a checkpoint: rows by device and solver for the labels of a data set, then by device for its timings.

    Only labels and timings that the checkpoint has not learned from are scored. `by_feature` adds parts by direction
    and data type. Raises MisuseError if none is left.
    """
    unseen, timings = unlearned(checkpoint, read_labels(data), read_solver_timings(data), warn)
    with one_thread():
        rows: list[LabelRow | SolverChoiceRow] = [
            *score_labels(Beam(checkpoint.next_word()), unseen, BY if by_feature else (), progress)]
        if timings is not None and len(timings):
            progress("scoring the choice of solvers")
            rows += solver_choice_rows(timings, choose(checkpoint.translator, timings))
    return rows


def unlearned(checkpoint: Checkpoint, labels: Mapping[str, Labels], timings: SolverTimings | None,
              warn: Say = silent) -> tuple[dict[str, Labels], SolverTimings | None]:
    """The labels, by kernel in the checkpoint's words, and the timings that the checkpoint has not learned from.

    Raises MisuseError if there are none.
    """
    assert checkpoint.choices is not None
    kernels, seen = checkpoint.kernels, checkpoint.choices.learned
    unlearned_labels = {name: _unlearned(kernel_labels.for_kernel(kernels[name]), seen)
                        for name, kernel_labels in labels.items() if name in kernels}
    unlearned_labels = {name: part for name, part in unlearned_labels.items() if len(part)}
    checkpoint.vocabulary.check(kernels[name] for name in unlearned_labels)
    unlearned_timings = None if timings is None else timings.take(
        np.flatnonzero(~seen.contains(timings.hashes)))
    if not unlearned_labels and (unlearned_timings is None or not len(unlearned_timings)):
        raise MisuseError("nothing to evaluate on: the checkpoint has learned from every problem in these files")
    skipped = sum(map(len, labels.values())) - sum(map(len, unlearned_labels.values()))
    if skipped:
        warn(f"{skipped} labels are not evaluated: the checkpoint has learned from their problems, or lacks their "
             "solvers")
    return unlearned_labels, unlearned_timings


def held_out_scores(checkpoint: Checkpoint, labels: Mapping[str, Labels], timings: SolverTimings | None,
                say: Say = silent) -> list[dict[str, Any]]:
    """Score a checkpoint on the held-out problems: JSON objects by device and solver, then by device."""
    kernels = checkpoint.kernels
    held_out = {name: kernel_labels.for_kernel(kernels[name]).split()[1]
                for name, kernel_labels in labels.items() if name in kernels}
    rows = [row.to_json() for row in score_labels(Beam(checkpoint.next_word()), held_out, progress=say)]
    if timings is not None:
        held_out_timings = timings.take(np.flatnonzero(timings.queries.held_out))
        chosen = choose(checkpoint.translator, held_out_timings)
        rows += [row.to_json() for row in solver_choice_rows(held_out_timings, chosen)]
    return rows


def training_part(labels: Mapping[str, Labels],
                  timings: SolverTimings | None) -> tuple[dict[str, Labels], SolverTimings | None]:
    """The labels and timings of problems that are not held out, without kernels that have no such label."""
    training = {name: kernel_labels.split()[0] for name, kernel_labels in labels.items()}
    training_timings = None if timings is None else timings.take(np.flatnonzero(~timings.queries.held_out))
    return {name: part for name, part in training.items() if len(part)}, training_timings


def _unlearned(labels: Labels, seen: SeenProblems) -> Labels:
    return labels.take(np.flatnonzero(~seen.contains(labels.queries.hashes)))
