"""Retraining: adapts a checkpoint to new records (a new device, a new kernel) without forgetting the old ones.

New examples are mixed with rehearsed old ones, the vocabulary gets the new words, and the teacher is fitted to both, so
that times of old devices help on a new device with few measurements. If no target word is new, the wanted
probabilities of a rehearsed example come mostly from the old checkpoint (the anchor): refitting the same examples would
only perturb its answers.
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

from ..confidence.confidence_model import ConfidenceModel
from ..training.loop import OnProgress
from ..training.state import describe
from ..trees.ranker import Ranker
from .checkpoint import Checkpoint
from .evaluation import COUNTS, judge
from .shares import OURS
from .training import fit, train
from .training_examples import held_out_problems, make_examples, make_teacher, words_of
from .training_options import TrainingOptions

# Fewer epochs at a lower rate than a first training, and no early stopping: new problems are too few to split off
# validation problems, and the average of the weights changes slowly.
RETRAINING = TrainingOptions(epochs=20, rate=4e-4, validation=0.0, extra=3000)

ANCHORED = 0.7  # share of the old checkpoint in a rehearsed example's probabilities; the rest can correct its errors

MAX_REPEATS = 4  # repeats of new examples in an epoch, to have about as many new as rehearsed ones


def retrain(checkpoint: Checkpoint, new: Data, rehearsal: Data, options: TrainingOptions = RETRAINING,
            on_progress: OnProgress | None = None, scratch: bool = False) -> tuple[Checkpoint, dict[str, Any]]:
    """Adapt a checkpoint to new records; return the new checkpoint and a report that JSON can hold.

    The report has the shares on held-out problems of the new and of the old records, before and after. With `scratch`
    it also has those of a training on the new records alone. Held-out problems of the new records are not rehearsed.
    New problems near to a held-out problem of the old records are not used; `left_out` is their number. Raises
    MisuseError if no training problem is left.
    """
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
    relearned = {(measured.problem.key, measured.device.key) for measured in fresh}
    unseen = {problem.key for problem in held_out_problems(new)}
    old = [measured for measured in measured_tasks(rehearsal, held_out=False)
           if (measured.problem.key, measured.device.key) not in relearned and measured.problem.key not in unseen]
    vocabulary = checkpoint.vocabulary.extended(*words_of([*fresh, *old]))
    torch.manual_seed(options.seed)
    model = checkpoint.model.grown(vocabulary)
    teacher = make_teacher([*old, *fresh], options)
    avoid = list(dict.fromkeys([*held_out_problems(new), *old_held_out]))
    half = replace(options, extra=options.extra // 2)
    examples = make_examples(fresh, teacher, vocabulary, half, avoid)
    rehearsed = make_examples(old, teacher, vocabulary, half, avoid) if old else []
    rehearsed = [replace(example, anchored=ANCHORED) for example in rehearsed]
    repeats = min(MAX_REPEATS, max(1, round(len(rehearsed) / len(examples))))
    same = len(vocabulary.targets) == len(checkpoint.vocabulary.targets)  # new words may be better
    anchor = checkpoint.model.grown(vocabulary).eval() if same else None
    state = fit(model, vocabulary, rehearsed + examples * repeats, [], options, on_progress, began, anchor=anchor)
    report: dict[str, Any] = {
        "new_problems": len({measured.problem.key for measured in fresh}), "left_out": len(left_out),
        "new_cases": len(fresh), "old_cases": len(old),
        "new_devices": sorted({measured.device.name for measured in fresh}), "epochs": state.epoch,
        "interrupted": state.interrupted, "new_words": len(vocabulary.targets) - len(checkpoint.vocabulary.targets)
        + len(vocabulary.words) - len(checkpoint.vocabulary.words)}
    ranker = None if teacher is None else Ranker.of(teacher)
    estimator = checkpoint.estimator
    if isinstance(estimator, ConfidenceModel):  # what is lost on problems and machines is about the same as before
        estimator = estimator.with_devices(measured.device for measured in fresh)
    after = Checkpoint.of_model(state.kept.eval(), vocabulary, {}, {}, options.seed, ranker, estimator)
    compared = {"before": checkpoint, "after": after}
    if scratch and not state.interrupted:
        size = checkpoint.size
        alone = replace(options, epochs=2 * options.epochs, rate=TrainingOptions().rate, width=size.width,
                        layers=size.layers, heads=size.heads, hidden=size.hidden, dropout=size.dropout)
        compared["scratch"], _ = train(new, alone, on_progress, left_out)
    report["new"] = {name: shares(candidate, new) for name, candidate in compared.items()}
    report["old"] = {name: shares(candidate, rehearsal) for name, candidate in compared.items() if name != "scratch"}
    report["seconds"] = time.monotonic() - began
    provenance = {**checkpoint.provenance, "retrained_on": {
        "devices": report["new_devices"], "problems": report["new_problems"], "options": describe(options)}}
    return replace(after, provenance=provenance, metrics=report), report


def shares(checkpoint: Checkpoint, data: Data,
           counts: Sequence[int] = COUNTS) -> dict[str, dict[str, float]] | None:
    """The checkpoint's share on the held-out problems by device, then by number of measured proposals.

    None if the vocabulary lacks a kernel of the data set.
    """
    try:
        results = judge(data, checkpoint, counts)
    except CheckpointError:
        return None
    table: dict[str, dict[str, float]] = {}
    for device in dict.fromkeys(outcome.device for outcome in results):
        log_shares = [outcome.log_shares for outcome in results if outcome.device == device]
        table[device] = {str(count): math.exp(float(np.mean([logs[OURS, count] for logs in log_shares])))
                         for count in counts}
    return table
