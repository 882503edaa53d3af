"""SmallTraining: the whole way from few problems to a checkpoint that says how good it is.

1. Data whose times have nothing to do with the configurations are refused (see `sufficiency`).
2. A checkpoint is trained on all problems, with options for few of them.
3. Cross-validation repeats the training without a fold of the problems; its figures become part of the checkpoint's
   metrics. Ctrl-C then keeps the checkpoint with the finished folds or, where states are saved, the finished folds,
   from which the same call goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from seqtune.errors import MisuseError
from seqtune.kernels.problem import Problem
from seqtune.kernels.say import silent
from seqtune.kernels.task import MeasuredTask

from ....checkpoint import Checkpoint
from ....training.options import TrainingOptions
from ....training.progress import Epoch, Progress
from ..shares import OURS, EvaluationRow
from ..shortage import USEFUL
from ..training import train_model
from .cross_validation import cross_validate
from .folds import folds_of
from .options import problem_count
from .sufficiency import Relation, relation

SHOWN = 10  # epochs that are reported
_SIMPLE = {"default": "the safe default", "random": "random configurations",
           "fixed": "the same configurations for all problems", "nearest": "those of the nearest problem"}


def train_small(training: Sequence[MeasuredTask], held_out: Sequence[Problem], options: TrainingOptions,
                progress: Progress = silent, force: bool = False) -> tuple[Checkpoint, dict[str, Any]]:
    """Train a checkpoint on few problems and cross-validate the training; return it and a report that JSON can hold.

    Raises MisuseError if the times are unrelated to the configurations, unless `force` is set.
    """
    folds = folds_of(training, options.seed)
    related = relation(folds)
    notes = list(_notes(training, related))
    if related.missing and not force:
        raise MisuseError(f"{notes[0]}; measure again on a quiet device, or train all the same (--force)")
    checkpoint, report = train_model(training, held_out, options, _thinned(progress, options.epochs))
    report["relation"] = related.correlation
    validated = None if report["interrupted"] and not options.end_now else cross_validate(folds, options, progress)
    if validated is not None:
        report["cross_validation"] = validated.to_json()
        report["interrupted"] = validated.folds < validated.planned
        notes += _compared(validated.rows())
    report["remarks"] = notes
    for note in notes:
        progress(f"note: {note}")
    metrics = {name: value for name, value in report.items() if name != "history"}
    return replace(checkpoint, metrics=metrics), report


def _thinned(progress: Progress, epochs: int) -> Progress:
    """Report about SHOWN of the epochs, which take a tenth of a second each, and every line."""
    every = max(1, round(epochs / SHOWN))

    def thinned(step: str | Epoch) -> None:
        if isinstance(step, str) or step.epoch % every == 0 or step.epoch == step.epochs:
            progress(step)

    return thinned


def _notes(training: Sequence[MeasuredTask], related: Relation) -> list[str]:
    """Sentences about the data that the user should see."""
    notes: list[str] = []
    if related.doubtful:
        how = "are unrelated to" if related.missing else "cannot be distinguished from chance by"
        notes.append(f"the times {how} the configurations: the rank correlation on unseen problems is "
                       f"{related.correlation:.2f}, and chance gives up to {2 * related.error:.2f}")
    count = problem_count(training)
    if count < USEFUL:
        notes.append(f"{count} problems; {USEFUL} give a useful predictor")
    return notes


def _compared(shares: Sequence[EvaluationRow]) -> list[str]:
    """Sentences about devices on which the proposals are not clearly better than those of a simple method."""
    notes: list[str] = []
    ours = {(row.device, row.measured): row.share for row in shares if row.method == OURS}
    for (device, measured), share in ours.items():
        like = [f"{_SIMPLE[row.method]} {row.share:.2f}" for row in shares
                if (row.device, row.measured) == (device, measured) and row.method in _SIMPLE
                and row.low is not None and row.low <= 0]
        if like:
            proposed = "the first proposal reaches" if measured == 0 else f"the best of {measured} proposals reach"
            notes.append(f"on {device} {proposed} {share:.2f} of the best speed, not clearly more than "
                           f"{', '.join(like)}")
    return notes
