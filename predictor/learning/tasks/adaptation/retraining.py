"""Retraining: adapts a checkpoint to new records (a new device, a new kernel) for the devices of these records.

The result keeps the checkpoint that it began from for all other devices, so their answers do not change.

A retraining takes minutes, since it reads only some of the old records again. The checkpoint's trees are kept, and
further trees are fitted to their errors on the new and the rehearsed records. All these trees are the teacher of the
translator, which goes on from its weights. New examples are mixed with rehearsed ones of all devices, since a few
problems alone would be learned by heart. The wanted probabilities of rehearsed examples come mostly from the old
checkpoint (the anchor). If target words are new, which may be better than the old ones, there is no anchor.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from seqtune.data.machines import device_labels
from seqtune.data.measured_tasks import Data, measured_tasks
from seqtune.errors import CheckpointError, MisuseError, SeqtuneError
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.leakage import sorted_briefs, split_leaked
from seqtune.kernels.say import Say, silent
from seqtune.kernels.task import MeasuredTask
from seqtune.tuner.measuring.deadline import Deadline

from ....checkpoint import Checkpoint
from ....confidence.model import ConfidenceModel
from ....experts.process import Processes
from ....largest import Largest
from ....sequence.vocabulary import Vocabulary
from ....training.progress import Progress
from ....training.state import describe
from ....trees.boosters import boosters_of
from ....trees.cost_trees import Trees
from ....trees.ranker import Ranker
from ...options import TrainingOptions
from ..evaluation import evaluate_tasks
from ..examples import (
    Examples,
    held_out_problems,
    labelled_problems,
    make_examples,
    problems_of,
    words_of,
)
from ..shares import Outcome
from ..training import fit, train_model
from ..training_example import TrainingExample
from .options import RetrainingOptions
from .rehearsal import Rehearsal
from .report import NEW, OLD, RetrainingReport, comparison_rows

RETRAINING = RetrainingOptions()
ANCHORED = 0.85  # share of the old checkpoint's predictions in a rehearsed example; the rest are its times
SCRATCH = 5  # times as many epochs in the training to compare with, which begins with random weights
JOINING = 0.6  # share of the time of fitting the trees: joining them to the old ones takes about as long
SLACK = 1.3  # the last evaluation may take this much longer than the first one
TREES, REHEARSED, LABELLED = 0.45, 0.6, 0.7  # shares of the time after which the trees, the rehearsed examples and
#                                              those of labelled problems are cut short


@dataclass(frozen=True, slots=True)
class Selection:
    """The tasks of a retraining.

    All training problems of the new records are learned from, whatever the old records hold out: what is held out
    there protects the figures of the old checkpoint. A held-out problem near a learned one is not used for evaluation.
    """

    fresh: list[MeasuredTask]  # new records to learn from
    old: list[MeasuredTask]  # rehearsed
    left_out: list[Problem]  # training problems of the new records without a usable measurement
    held_out: list[Problem]  # of both, to evaluate on: no training problem of the new records is near one
    leaked: dict[str, list[Problem]]  # NEW and OLD: held-out problems near a training problem of the new records
    new_held_out: list[MeasuredTask]  # those of the new records

    @classmethod
    def of(cls, new: Data, rehearsal: Data, options: RetrainingOptions,
           check: Callable[[], object] = lambda: None) -> Selection:
        """Select the tasks; `check` is called before each. Raises MisuseError if no new training problem is left."""
        fresh = measured_tasks(new, held_out=False, before_each=check)
        if not fresh:
            raise MisuseError("the new records have no training problem that a kernel here solves; nothing to adapt to")
        learned = {measured.problem for measured in fresh}
        held_out = {NEW: held_out_problems(new), OLD: held_out_problems(rehearsal)}
        far, near = zip(*(split_leaked(problems, learned) for problems in held_out.values()), strict=True)
        pairs = new.frame[["problem", "device"]].drop_duplicates().itertuples(index=False, name=None)
        unseen = {problem.key for problem in held_out[NEW]}
        relearned = {(str(problem), str(device)) for problem, device in pairs}
        relearned |= {(problem, device) for problem in unseen for device in rehearsal.devices}
        old = Rehearsal.drawn(rehearsal, options.rehearsed, False, options.seed, relearned).tasks(check)
        usable = list(dict.fromkeys(problem for part in far for problem in part))
        return cls(fresh, old, [problem for problem in problems_of(new, held_out=False) if problem not in learned],
                   usable, dict(zip(held_out, near, strict=True)),
                   [measured for measured in measured_tasks(new, held_out=True, before_each=check)
                    if measured.problem in {*usable}])


def retrain(checkpoint: Checkpoint, new: Data, rehearsal: Data, options: RetrainingOptions = RETRAINING,
            progress: Progress = silent, scratch: bool = False,
            deadline: Deadline | None = None) -> tuple[Checkpoint, RetrainingReport]:
    """Adapt a checkpoint to new records; return the new checkpoint and a report.

    The training continues from the layer that answers for the new records or, of several, from the newest of these.

    The report compares before and after on the held-out problems of the new records, and on old held-out problems whose
    predictions can change, at most `options.evaluated` of each device. With `scratch` it also has the shares of a
    training on the new records alone, which takes further time. The `deadline` (None: in `options.minutes`) cuts the
    trees, the rehearsed examples and the epochs short. Held-out problems of the new records are not rehearsed.
    `progress` receives every epoch, and a line for every other step. Ctrl-C after the first epoch ends the
    training with the epochs that are complete, Ctrl-C in the last evaluation leaves that out; before, nothing
    is learned yet, and it is raised. Unless the time ends the training, the same seed, data and machine give the
    same weights. Raises SeqtuneError if the deadline passes, or would pass, before the training begins, MisuseError if
    there is no training problem, or if the checkpoint was retrained for too many other devices.
    """
    promised = Deadline() if deadline is None else deadline  # `options.minutes` cuts short, but refuses nothing
    deadline = Deadline(60 * options.minutes) if deadline is None else deadline
    began, check = time.monotonic(), partial(_check_time, promised)
    progress("choosing the new problems and the old ones that are learned again")
    selection = Selection.of(new, rehearsal, options, check)
    selecting = time.monotonic() - began
    check()
    fresh, old = selection.fresh, selection.old
    former = checkpoint.former_for(measured.device for measured in fresh)
    start, changing = _start(checkpoint, fresh), _changing(former, selection, rehearsal)
    leaked = {(problem.key, name) for problem in selection.leaked[OLD] for name in rehearsal.devices}
    drawn = Rehearsal.drawn(changing, options.evaluated, True, options.seed, leaked).tasks(check)
    vocabulary = start.vocabulary.extended(*words_of([*fresh, *old]))
    new_held_out, old_held_out = ([measured for measured in tasks if _answers(measured, vocabulary, former)]
                                    for tasks in (selection.new_held_out, drawn))
    evaluation_began = time.monotonic()
    progress(f"evaluating the checkpoint as it is: {len(new_held_out)} new and {len(old_held_out)} old held-out "
             "problems")
    before = [_outcomes(checkpoint, tasks, check) for tasks in (new_held_out, old_held_out)]
    evaluating = time.monotonic() - evaluation_began
    # The last evaluation takes as long as this one, and fitting the trees takes longer than selecting their tasks
    check(evaluating + selecting)
    trees_began = time.monotonic()

    def growing(family: str) -> None:
        progress(family)
        check(evaluating)

    teacher = continued(start.ranker, selection, options, deadline.scaled(TREES), growing)
    check(evaluating + JOINING * (time.monotonic() - trees_began))
    torch.manual_seed(options.seed)
    model = start.network.grown(vocabulary)
    same = len(vocabulary.targets) == len(start.vocabulary.targets)  # new words may be better
    progress(f"choosing examples of {len(fresh)} new and {len(old)} old problems")
    examples = retraining_examples(selection, teacher, vocabulary, options, deadline)
    state = fit(model, vocabulary, examples, [], options, progress, began,
                anchor=start.network.grown(vocabulary).eval() if same else None,
                deadline=time.monotonic() + deadline.left - SLACK * evaluating)
    estimator = start.estimator
    if isinstance(estimator, ConfidenceModel):  # what is lost on problems and machines is about the same as before
        estimator = estimator.with_tasks(fresh)
    after = replace(Checkpoint.of_translator(state.kept.eval(), vocabulary, {}, {}, options.seed,
                                             joined(start.ranker, teacher), estimator),
                    largest=Largest.of((*selection.fresh, *selection.old)),
                    processes=Processes.of((*selection.fresh, *selection.old)), former=former,
                    retrained_for=frozenset(measured.device.key for measured in fresh))
    new_after: list[Outcome] = []
    old_after: list[Outcome] = []
    try:
        progress("evaluating the new checkpoint on the same problems")
        new_after, old_after = (evaluate_tasks(tasks, after) for tasks in (new_held_out, old_held_out))
    except KeyboardInterrupt:  # what was learned is worth more than its evaluation
        state.interrupted = True
    seconds = time.monotonic() - began
    alone = None
    if scratch and not state.interrupted:
        alone = _outcomes(_from_scratch(checkpoint, new, options, progress), new_held_out)
    labels = device_labels(measured.device for measured in fresh)
    evaluated = {measured.device.key for measured in new_held_out}
    unanswered = {measured.problem for measured in (*selection.new_held_out, *drawn)} - {
        measured.problem for measured in (*new_held_out, *old_held_out)}
    changed = {device.key for device in changing.devices.values()}
    report = RetrainingReport(
        new_devices=tuple(sorted(labels.values())),
        new_problems=len({measured.problem for measured in fresh}), new_cases=len(fresh),
        old_cases=sum(example.anchored > 0 for example in examples.measured),
        left_out=sorted_briefs(selection.left_out),
        evaluated=(*comparison_rows(NEW, before[0], new_after, alone), *comparison_rows(OLD, before[1], old_after)),
        unevaluated=tuple(sorted(label for key, label in labels.items() if key not in evaluated)),
        not_evaluated={records: sorted_briefs(problems) for records, problems in selection.leaked.items()},
        unanswered=sorted_briefs([*unanswered]),
        unchanged=tuple(sorted(label for key, label in device_labels(rehearsal.devices.values()).items()
                               if key not in changed)),
        new_words=len(vocabulary.targets) - len(start.vocabulary.targets)
        + len(vocabulary.words) - len(start.vocabulary.words),
        epochs=state.epoch, planned_epochs=options.epochs, interrupted=state.interrupted,
        out_of_time=state.epoch < options.epochs and not state.interrupted, seconds=seconds)
    content = report.to_json()
    provenance: dict[str, Any] = {**start.provenance, "retrained_on": {
        "devices": content["new_devices"], "problems": content["new_problems"], "options": describe(options)}}
    return replace(after, provenance=provenance, metrics=content), report


def _check_time(deadline: Deadline, needed: float = 0.0) -> None:
    """Raise SeqtuneError if the budget has no more than `needed` seconds left, which the work around training takes.

    The message names a budget that suffices for what was measured so far: then the trees begin before their share of
    the time is over.
    """
    if deadline.hard.left <= needed:
        spent = deadline.elapsed
        minutes = math.ceil(2 * max(spent + needed, spent / TREES) / 60) / 2
        raise SeqtuneError(f"the budget of {deadline.seconds:.3g} s ends before the training begins, so nothing was "
                           f"written; after {spent:.3g} s of preparation, this machine seems to need about --minutes "
                           f"{max(minutes, 0.5):g} ({RETRAINING.minutes:g} by default)")


def _start(checkpoint: Checkpoint, fresh: Sequence[MeasuredTask]) -> Checkpoint:
    """The newest of the layers that answer for these tasks."""
    answering = [checkpoint.on(measured.device, measured.task.kernels) for measured in fresh]
    return next(layer for layer in checkpoint.layers if layer in answering)


def _changing(former: Checkpoint, selection: Selection, rehearsal: Data) -> Rehearsal:
    """The old records of the devices whose answers the retraining can change.

    These are the devices of the new records, and all of a backend with a kernel that the former checkpoint lacks.
    """
    retrained = {measured.device.key for measured in selection.fresh}
    kernels = {kernel for measured in (*selection.fresh, *selection.old) for kernel in measured.task.kernels}
    backends = {backend for kernel in kernels if not former.fits([kernel]) for backend in kernel.backends}
    devices = {name: device for name, device in rehearsal.devices.items()
               if device.key in retrained or device.backend in backends}
    return Rehearsal(rehearsal.frame[rehearsal.frame["device"].isin(list(devices))], devices, rehearsal.kernels)


def continued(ranker: Ranker | None, selection: Selection, options: RetrainingOptions,
              deadline: Deadline | None = None, progress: Say = silent) -> Trees | None:
    """The trees of a ranker and `options.added` further ones, which are fitted to the errors of the former.

    Only the kernel families of the new records' backends are fitted; a new family gets `options.trees.rounds` trees.
    The deadline may end the fit earlier. `progress` is called before each family; what it raises ends the fit. None
    if the options have no teacher.
    """
    if not options.teacher:
        return None
    backends = {measured.device.backend for measured in selection.fresh}
    tasks = [*(measured for measured in selection.old if measured.device.backend in backends), *selection.fresh]
    settings = replace(options.trees, threads=options.threads, seed=options.seed)
    if ranker is None:
        return Trees(tasks, settings, deadline=deadline, progress=progress)
    boosters = boosters_of(ranker, {kernel.name for measured in tasks for kernel in measured.task.kernels})
    settings = replace(settings, features=ranker.listed, models=max(map(len, ranker.forests.values()), default=1))
    return Trees(tasks, settings, boosters, options.added, deadline, progress)


def joined(ranker: Ranker | None, teacher: Trees | None) -> Ranker | None:
    """The ranker with the trees of the teacher in place of its own; without a teacher there is none."""
    if teacher is None:
        return None
    further = Ranker.of(teacher)
    return further if ranker is None else Ranker({**ranker.features, **further.features},
                                                 {**ranker.forests, **further.forests}, ranker.listed)


def retraining_examples(selection: Selection, teacher: Trees | None, vocabulary: Vocabulary,
                        options: RetrainingOptions, deadline: Deadline) -> Examples:
    """The examples: the rehearsed tasks with their measured configurations, and the new ones several times.

    If their shares of the time are over, there are fewer rehearsed tasks, of all problems and devices alike, and fewer
    sampled problems. When all of the time is over there are fewer new ones, too: no epoch will read them.
    """
    end = deadline.scaled(REHEARSED)
    rehearsed: dict[int, TrainingExample] = {}  # by their index in `selection.old`
    for index in np.random.default_rng(options.seed).permutation(len(selection.old)).tolist():
        if rehearsed and end.is_over:
            break
        (example,) = make_examples([selection.old[index]], None, vocabulary, options, []).measured
        rehearsed[index] = replace(example, anchored=ANCHORED)
    fresh: list[TrainingExample] = []
    for measured in selection.fresh:
        if fresh and deadline.is_over:
            break
        fresh += make_examples([measured], teacher, vocabulary, replace(options, extra=0), []).measured
    labelled = None if teacher is None else labelled_problems(
        selection.fresh, teacher, vocabulary, options, selection.held_out)
    if labelled is not None:
        labelled.label(deadline.scaled(LABELLED))
    count = len(fresh) + (0 if labelled is None else len(labelled))
    repeats = min(options.repeats, max(1, round(len(rehearsed) / count)))
    return Examples([*(rehearsed[index] for index in sorted(rehearsed)), *fresh * repeats], labelled)


def _from_scratch(checkpoint: Checkpoint, new: Data, options: RetrainingOptions,
                  progress: Progress) -> Checkpoint:
    """A checkpoint of the same size that is trained on the new records alone."""
    size = checkpoint.size
    alone = TrainingOptions(
        epochs=SCRATCH * options.epochs, validation=0.0, extra=options.extra,
        trees=options.trees, teacher=options.teacher, confidence=False, width=size.width, layers=size.layers,
        decoder_layers=size.depth, heads=size.heads, hidden=size.hidden, dropout=size.dropout,
        judge=size.judge, seed=options.seed, threads=options.threads)
    return train_model(measured_tasks(new, held_out=False), held_out_problems(new), alone, progress)[0]


def _answers(measured: MeasuredTask, vocabulary: Vocabulary, former: Checkpoint) -> bool:
    """Whether the retrained checkpoint can answer a task: its vocabulary or its former checkpoint knows the kernels."""
    return not vocabulary.differences(measured.task.kernels) or former.fits(measured.task.kernels)


def _outcomes(checkpoint: Checkpoint, tasks: Sequence[MeasuredTask],
              check: Callable[[], object] = lambda: None) -> list[Outcome] | None:
    """The checkpoint's outcomes on held-out tasks; None if its vocabulary lacks a kernel of them."""
    try:
        return evaluate_tasks(tasks, checkpoint, before_each=check)
    except CheckpointError:
        return None
