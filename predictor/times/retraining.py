"""Retraining: adapts a checkpoint to new records (a new device, a new kernel) without forgetting the old ones.

New lessons are mixed with rehearsed old ones, the vocabulary grows where there are new words, and the teacher knows
both: what it learned of old devices helps where a new one has few measurements. Where no target word is new, most of
what a rehearsed lesson wants is what the old checkpoint says: fitting the same lessons anew would but stir its answers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from seqtune.data.measured_tasks import Data, measured_tasks
from seqtune.errors import CheckpointError, MisuseError
from seqtune.kernels.problem_sets.similarity import near

from ..training.loop import OnProgress
from ..training.state import describe
from ..trees.ranker import Ranker
from .checkpoint import Checkpoint
from .evaluation import COUNTS, judged
from .lessons import held_out_problems, make_lessons, make_teacher, words_of
from .training import fit, train
from .training_options import TrainingOptions

# Fewer epochs at a lower rate than a first training, and no early stopping: a handful of new problems is too few to
# split, and the average of the weights is steady.
RETRAINING = TrainingOptions(epochs=20, rate=4e-4, validation=0.0, extra=3000)

ANCHORED = 0.7  # of what a rehearsed lesson wants is the old checkpoint's answer; the rest lets noise be mended

MOST_REPEATS = 4  # of new lessons in an epoch, towards as many new ones as rehearsed ones


def retrain(checkpoint: Checkpoint, new: Data, rehearsal: Data, options: TrainingOptions = RETRAINING,
            on_progress: OnProgress | None = None, scratch: bool = True) -> tuple[Checkpoint, dict[str, Any]]:
    """A new checkpoint, and a report: shares on held-out problems of the new and of the old devices, before and after,
    beside a training from scratch on the same new records alone (unless `scratch` is False).

    What the new records hold out is not rehearsed, and what is near to a problem that the old ones hold out is not
    learned from: `left_out` counts such problems."""
    began = time.monotonic()
    fresh = measured_tasks(new, held_out=False)
    if not fresh:
        raise MisuseError("the new records have no training problem that a kernel here solves; nothing to adapt to")
    old_held_out = held_out_problems(rehearsal)
    left_out = {problem for problem in dict.fromkeys(measured.problem for measured in fresh)
                if any(near(problem, other) for other in old_held_out)}
    fresh = [measured for measured in fresh if measured.problem not in left_out]
    if not fresh:
        raise MisuseError(f"all {len(left_out)} training problems of the new records are, or nearly are, held out by "
                          "the old ones; nothing to adapt to: measure other problems, too")
    labels = {(measured.problem.key, measured.device.key) for measured in fresh}
    unseen = {problem.key for problem in held_out_problems(new)}
    old = [measured for measured in measured_tasks(rehearsal, held_out=False)
           if (measured.problem.key, measured.device.key) not in labels and measured.problem.key not in unseen]
    vocabulary = checkpoint.vocabulary.extended(*words_of([*fresh, *old]))
    torch.manual_seed(options.seed)
    model = checkpoint.model.grown(vocabulary)
    teacher = make_teacher([*old, *fresh], options)
    avoid = list(dict.fromkeys([*held_out_problems(new), *old_held_out]))
    half = replace(options, extra=options.extra // 2)
    lessons = make_lessons(fresh, teacher, vocabulary, half, avoid)
    rehearsed = make_lessons(old, teacher, vocabulary, half, avoid) if old else []
    rehearsed = [replace(lesson, anchored=ANCHORED) for lesson in rehearsed]
    repeats = min(MOST_REPEATS, max(1, round(len(rehearsed) / len(lessons))))
    same = len(vocabulary.targets) == len(checkpoint.vocabulary.targets)  # else what was right may be so no longer
    anchor = checkpoint.model.grown(vocabulary).eval() if same else None
    state = fit(model, vocabulary, rehearsed + lessons * repeats, [], options, on_progress, began, anchor=anchor)
    report: dict[str, Any] = {
        "new_problems": len({measured.problem.key for measured in fresh}), "left_out": len(left_out),
        "new_cases": len(fresh), "old_cases": len(old),
        "new_devices": sorted({measured.device.name for measured in fresh}), "epochs": state.epoch,
        "interrupted": state.interrupted, "new_words": len(vocabulary.targets) - len(checkpoint.vocabulary.targets)
        + len(vocabulary.words) - len(checkpoint.vocabulary.words)}
    ranker = None if teacher is None else Ranker.of(teacher)
    after = Checkpoint(state.kept.eval(), vocabulary, {}, {}, options.seed, ranker)
    compared = {"before": checkpoint, "after": after}
    if scratch and not state.interrupted:
        size = checkpoint.model.size
        alone = replace(options, epochs=2 * options.epochs, rate=TrainingOptions().rate, width=size.width,
                        layers=size.layers, heads=size.heads, hidden=size.hidden, dropout=size.dropout)
        compared["scratch"], _ = train(new, alone, on_progress, left_out)
    report["new"] = {name: shares(found, new) for name, found in compared.items()}
    report["old"] = {name: shares(found, rehearsal) for name, found in compared.items() if name != "scratch"}
    report["seconds"] = time.monotonic() - began
    provenance = {**checkpoint.provenance, "retrained_on": {
        "devices": report["new_devices"], "problems": report["new_problems"], "options": describe(options)}}
    return replace(after, provenance=provenance, metrics=report), report


def shares(checkpoint: Checkpoint, data: Data,
           counts: Sequence[int] = COUNTS) -> dict[str, dict[str, float]] | None:
    """Share by device, then by number measured, on the held-out problems; None where it lacks a kernel's words."""
    try:
        found = judged(data, checkpoint, counts)
    except CheckpointError:
        return None
    table: dict[str, dict[str, float]] = {}
    for device in dict.fromkeys(outcome.device for outcome in found):
        mine = [outcome.log_shares for outcome in found if outcome.device == device]
        table[device] = {str(count): math.exp(float(np.mean([logs["seq2seq", count] for logs in mine])))
                         for count in counts}
    return table
