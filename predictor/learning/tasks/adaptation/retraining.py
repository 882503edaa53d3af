"""Retraining: adapts a checkpoint to new records (a new device, a new kernel) for the devices of these records.

The result keeps the checkpoint that it began from for all other devices, so their answers do not change.

A retraining takes minutes, since it reads only some of the old records again. The checkpoint's trees are kept, and
further trees are fitted to their errors on the new and the rehearsed records. All these trees are the teacher of the
translator, which goes on from its weights. New examples are mixed with rehearsed ones of all devices, since a few
problems alone would be learned by heart. The wanted probabilities of rehearsed examples come mostly from the old
checkpoint (the anchor). If target words are new, which may be better than the old ones, there is no anchor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from seqtune.data.machines import device_labels
from seqtune.data.measured_tasks import Data, measured_tasks
from seqtune.errors import CheckpointError
from seqtune.kernels.problem_sets.leakage import sorted_briefs
from seqtune.kernels.say import Say, silent
from seqtune.kernels.task import MeasuredTask
from seqtune.tuner.measuring.deadline import Deadline

from ....checkpoint import Checkpoint
from ....confidence.model import ConfidenceModel
from ....experts.process import Processes
from ....largest import Largest
from ....sequence.vocabulary import Vocabulary
from ....training.options import TrainingOptions
from ....training.progress import Progress
from ....training.state import TrainingState, describe
from ....translator.translator import Translator
from ....trees.boosters import boosters_of
from ....trees.cost_trees import Trees
from ....trees.ranker import Ranker
from ..evaluation import evaluate_tasks
from ..examples import Examples, held_out_problems, labelled_problems, make_examples
from ..shares import Outcome
from ..training import fit, train_model
from ..training_example import TrainingExample
from .clock import TREES, Clock
from .options import RetrainingOptions
from .plan import SELECTING, Plan, Selection
from .report import NEW, OLD, ComparisonRow, RetrainingReport, comparison_rows

RETRAINING = RetrainingOptions()
ANCHORED = 0.85  # share of the old checkpoint's predictions in a rehearsed example; the rest are its times
SCRATCH = 5  # times as many epochs in the training to compare with, which begins with random weights
JOINING = 0.6  # share of the time of fitting the trees: joining them to the old ones takes about as long
SLACK = 1.3  # the last evaluation may take this much longer than the first one
REHEARSED, LABELLED = 0.6, 0.7  # shares of the time after which the rehearsed examples and those of labelled problems
#                                 are cut short
EVALUATING, GROWING = "evaluating", "growing"  # steps of the clock

Outcomes = Mapping[str, list[Outcome] | None]  # of the held-out tasks of the new and of the old records (NEW, OLD)


@dataclass(frozen=True, slots=True)
class Learned:
    """The trees and the translator of a retraining, after they have learned."""

    teacher: Trees | None
    examples: Examples
    state: TrainingState[Translator]


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
    clock = Clock(options.minutes, deadline)
    progress("choosing the new problems and the old ones that are learned again")
    plan = Plan.of(checkpoint, new, rehearsal, options, clock)
    before = _before(plan, checkpoint, clock, progress)
    learned = _learned(plan, clock, progress)
    adapted = _adapted(plan, learned)
    after = _after(plan, adapted, learned.state, progress)
    seconds = clock.elapsed
    alone = None
    if scratch and not learned.state.interrupted:
        alone = _outcomes(_from_scratch(checkpoint, new, options, progress), plan.held_out[NEW])
    report = _report(plan, learned, rehearsal, seconds, (
        *comparison_rows(NEW, before[NEW], after[NEW], alone), *comparison_rows(OLD, before[OLD], after[OLD])))
    content = report.to_json()
    provenance = {**plan.start.provenance, "retrained_on": {
        "devices": content["new_devices"], "problems": content["new_problems"], "options": describe(options)}}
    return replace(adapted, provenance=provenance, metrics=content), report


def _before(plan: Plan, checkpoint: Checkpoint, clock: Clock, progress: Progress) -> Outcomes:
    """The outcomes of the checkpoint as it is. Raises SeqtuneError if too little time is left for what follows."""
    with clock.step(EVALUATING):
        progress(f"evaluating the checkpoint as it is: {len(plan.held_out[NEW])} new and {len(plan.held_out[OLD])} old "
                 "held-out problems")
        outcomes = {records: _outcomes(checkpoint, tasks, clock.check) for records, tasks in plan.held_out.items()}
    # The last evaluation takes as long as this one, and fitting the trees takes longer than selecting their tasks
    clock.check(clock.took[EVALUATING] + clock.took[SELECTING])
    return outcomes


def _after(plan: Plan, adapted: Checkpoint, state: TrainingState[Translator],
           progress: Progress) -> dict[str, list[Outcome]]:
    """The outcomes of the new checkpoint; none after Ctrl-C, because what was learned is worth more than these."""
    try:
        progress("evaluating the new checkpoint on the same problems")
        return {records: evaluate_tasks(tasks, adapted) for records, tasks in plan.held_out.items()}
    except KeyboardInterrupt:
        state.interrupted = True
        return {records: [] for records in plan.held_out}


def _learned(plan: Plan, clock: Clock, progress: Progress) -> Learned:
    """Fit further trees and go on with the translator's training. Raises SeqtuneError if the trees end too late."""
    teacher = _teacher(plan, clock, progress)
    options, start = plan.options, plan.start
    torch.manual_seed(options.seed)
    model = start.network.grown(plan.vocabulary)
    progress(f"choosing examples of {len(plan.selection.fresh)} new and {len(plan.selection.old)} old problems")
    examples = retraining_examples(plan.selection, teacher, plan.vocabulary, options, clock.deadline)
    anchor = start.network.grown(plan.vocabulary).eval() if plan.keeps_targets else None  # new words may be better
    end = time.monotonic() + clock.deadline.left - SLACK * clock.took[EVALUATING]
    state = fit(model, plan.vocabulary, examples, [], options, progress, clock.began, anchor=anchor, deadline=end)
    return Learned(teacher, examples, state)


def _teacher(plan: Plan, clock: Clock, progress: Progress) -> Trees | None:
    """The trees of the checkpoint, continued, unless too little time is left for the evaluation."""
    evaluating = clock.took[EVALUATING]

    def growing(family: str) -> None:
        progress(family)
        clock.check(evaluating)

    with clock.step(GROWING):
        teacher = continued(plan.start.ranker, plan.selection, plan.options, clock.deadline.scaled(TREES), growing)
    clock.check(evaluating + JOINING * clock.took[GROWING])
    return teacher


def _adapted(plan: Plan, learned: Learned) -> Checkpoint:
    """The new checkpoint, in front of the one that answers for all other devices."""
    estimator = plan.start.estimator
    if isinstance(estimator, ConfidenceModel):  # what is lost on problems and machines is about the same as before
        estimator = estimator.with_tasks(plan.selection.fresh)
    tasks = (*plan.selection.fresh, *plan.selection.old)
    checkpoint = Checkpoint.of_translator(learned.state.kept.eval(), plan.vocabulary, {}, {}, plan.options.seed,
                                          joined(plan.start.ranker, learned.teacher), estimator)
    return replace(checkpoint, largest=Largest.of(tasks), processes=Processes.of(tasks), former=plan.former,
                   retrained_for=frozenset(measured.device.key for measured in plan.selection.fresh))


def _report(plan: Plan, learned: Learned, rehearsal: Data, seconds: float,
            rows: tuple[ComparisonRow, ...]) -> RetrainingReport:
    """The report of a retraining that took these seconds."""
    selection, state, options = plan.selection, learned.state, plan.options
    labels = device_labels(measured.device for measured in selection.fresh)
    evaluated = {measured.device.key for measured in plan.held_out[NEW]}
    changed = {device.key for device in plan.changing.devices.values()}
    return RetrainingReport(
        new_devices=tuple(sorted(labels.values())),
        new_problems=len({measured.problem for measured in selection.fresh}), new_cases=len(selection.fresh),
        old_cases=sum(example.anchored > 0 for example in learned.examples.measured),
        left_out=sorted_briefs(selection.left_out), evaluated=rows,
        unevaluated=tuple(sorted(label for key, label in labels.items() if key not in evaluated)),
        not_evaluated={records: sorted_briefs(problems) for records, problems in selection.leaked.items()},
        unanswered=sorted_briefs([*plan.unanswered]),
        unchanged=tuple(sorted(label for key, label in device_labels(rehearsal.devices.values()).items()
                               if key not in changed)),
        new_words=plan.new_words, epochs=state.epoch, planned_epochs=options.epochs, interrupted=state.interrupted,
        out_of_time=state.epoch < options.epochs and not state.interrupted, seconds=seconds)


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


def _outcomes(checkpoint: Checkpoint, tasks: Sequence[MeasuredTask],
              check: Callable[[], object] = lambda: None) -> list[Outcome] | None:
    """The checkpoint's outcomes on held-out tasks; None if its vocabulary lacks a kernel of them."""
    try:
        return evaluate_tasks(tasks, checkpoint, before_each=check)
    except CheckpointError:
        return None
