"""Training: trains a translator on measured times.

Few configurations of few problems are measured, but a translator learns distributions over whole spaces. Therefore a
teacher (boosted trees fitted to the same training rows only) estimates the times that were not measured, and those of
further sampled problems. Held-out problems are never used. Validation problems, which decide when training stops, are
split off by problem, and the teacher of that training is not fitted to them.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqtune.data.measured_tasks import split
from seqtune.errors import MisuseError
from seqtune.kernels.problem import Problem
from seqtune.kernels.say import Say, silent
from seqtune.kernels.task import ChosenTask, KnownTask, MeasuredTask

from ...checkpoint import Checkpoint
from ...confidence.fitting import fit_confidence, observe_candidates
from ...experts.process import Processes
from ...largest import Largest
from ...sequence.vocabulary import Vocabulary
from ...training.options import TrainingOptions
from ...training.progress import Progress
from ...training.state import OUTSIDE, TrainingState, describe
from ...training.trainer import Course
from ...training.trainer import fit as fit_network
from ...training.unfinished import JUDGE
from ...translator.judge import Judge
from ...translator.translator import Translator
from ...trees.cost_trees import Trees
from ...trees.ranker import Ranker
from .examples import Examples, describe_tasks, make_examples, make_teacher, vocabulary_of
from .labelled_problems import Draw, drawing
from .loss import judge_loss, sentence_loss
from .shortage import NO_PROBLEM
from .targets import TargetSentences
from .training_example import DrawnExample
from .validation import log_share, validate

MOST_VALIDATED = 300  # tasks with choices: each is searched after every epoch
MEASURED = 0.65  # least share of measured problems in an epoch, if there are so many; labelled ones have rarer sizes
COUNTED = (1, 3, 5)  # proposals of which the best counts, where the answers of two epochs are compared


@dataclass(frozen=True)
class TrainingPlan:
    """The tasks of a training: all are learned from in the end, and before that all but those for validation."""

    tasks: Sequence[KnownTask]
    fitting: Sequence[KnownTask]
    validation: Sequence[KnownTask]
    held_out: Sequence[Problem]  # no sampled problem is near one of these
    vocabulary: Vocabulary
    options: TrainingOptions
    progress: Progress
    began: float  # `time.monotonic`

    @classmethod
    def of(cls, tasks: Sequence[KnownTask], held_out: Sequence[Problem], options: TrainingOptions,
           progress: Progress) -> TrainingPlan:
        """Plan the training from now on. Raises MisuseError without a task."""
        if not tasks:
            raise MisuseError(NO_PROBLEM)
        fitting, validation = split(tasks, _validation_share(tasks, options), options.seed)
        return cls(tasks, fitting, validation, held_out, vocabulary_of(tasks), options, progress, time.monotonic())

    def teacher(self, tasks: Sequence[KnownTask]) -> Trees | None:
        """The trees that are fitted to these tasks; None if the options have no teacher."""
        return make_teacher(tasks, self.options, self.progress)

    def examples(self, tasks: Sequence[KnownTask], teacher: Trees | None) -> Examples:
        """The examples of these tasks and of those that the teacher labels."""
        return make_examples(tasks, teacher, self.vocabulary, self.options, self.held_out)

    def fit(self, examples: Examples, validation: Sequence[KnownTask] = (),
            until: int | None = None) -> TrainingState[Translator]:
        """Train a new translator on examples."""
        return fit(untrained(self.vocabulary, self.options), self.vocabulary, examples, validation, self.options,
                   self.progress, began=self.began, until=until)


def train_model(training: Sequence[KnownTask], held_out: Sequence[Problem],
                options: TrainingOptions | None = None,
                progress: Progress = silent) -> tuple[Checkpoint, dict[str, Any]]:
    """Train a checkpoint on the training tasks of a data set; return it and a report that JSON can hold.

    No sampled problem is near one of `held_out`. `progress` receives every epoch, and a line before what comes before
    and after the epochs. The same seed, data and machine give the same weights. Ctrl-C raises
    KeyboardInterrupt where the options name a folder of states, from which the same call goes on. Without one it ends
    the training and keeps the best weights so far; after the last epoch it leaves out the steps that follow, which are
    the refitting, the confidence model and the final trees. Raises MisuseError without a training task.
    """
    plan = TrainingPlan.of(training, held_out, options or TrainingOptions(), progress)
    teacher = plan.teacher(plan.fitting)
    progress(f"making the examples of {len(plan.fitting):,} problems, each on a device")
    examples = plan.examples(plan.fitting, teacher)
    progress(f"training: {plan.options.epochs} epochs of up to {plan.options.examples:,} examples")
    state = plan.fit(examples, plan.validation)
    if state.interrupted and plan.options.state is not None:
        raise KeyboardInterrupt
    report = _report(plan, teacher, examples, state)
    checkpoint = _trained(plan, teacher, state, report)
    try:
        for improved in _improved(plan, checkpoint, teacher, examples, state, report["kept_epoch"]):
            checkpoint = improved
    except KeyboardInterrupt:
        if plan.options.state is not None:
            raise
        report["interrupted"] = True
    report["seconds"] = time.monotonic() - plan.began
    return replace(checkpoint, metrics={name: value for name, value in report.items() if name != "history"}), report


def _report(plan: TrainingPlan, teacher: Trees | None, examples: Examples,
            state: TrainingState[Translator]) -> dict[str, Any]:
    """The report of the epochs."""
    about = describe_tasks(plan.tasks)
    return {
        "problems": about["problems"], "devices": about["devices"],
        "cases": len(plan.fitting), "validation_cases": len(plan.validation), "examples": len(examples),
        "measurements": about["measurements"],
        "parameters": sum(tensor.numel() for tensor in state.model.parameters()),
        "epochs": state.epoch, "best_epoch": state.best_epoch, "kept_epoch": state.best_epoch or state.epoch,
        "interrupted": state.interrupted or plan.options.end_now,
        "validation_share": state.history[state.best_epoch - 1]["share"] if plan.validation else None,
        "teacher_share": _teacher_share(teacher, plan.validation), "history": state.history,
    }


def _trained(plan: TrainingPlan, teacher: Trees | None, state: TrainingState[Translator],
             report: dict[str, Any]) -> Checkpoint:
    """The checkpoint of the epochs. With validation problems and a teacher, the report gets the chosen epoch."""
    provenance = {"trained_on": describe_tasks(plan.tasks), "options": describe(plan.options)}
    checkpoint = Checkpoint.of_translator(state.kept.eval(), plan.vocabulary, provenance, {}, plan.options.seed,
                                          _ranker(teacher))
    checkpoint = replace(checkpoint, largest=Largest.of(plan.tasks), processes=Processes.of(plan.fitting))
    if not plan.validation or teacher is None:
        return checkpoint
    return _chosen(checkpoint, state, [measured.measured_only() for measured in plan.validation], report)


def _improved(plan: TrainingPlan, checkpoint: Checkpoint, teacher: Trees | None, examples: Examples,
              state: TrainingState[Translator], epochs: int) -> Iterator[Checkpoint]:
    """The checkpoint after each step that follows the epochs; there are fewer where these were ended.

    A judge learns anew; if the options want it, all is fitted again to the validation problems, too, for as many
    `epochs` as were kept; the confidence model and the final trees are fitted. Raises KeyboardInterrupt.
    """
    if state.interrupted:
        return
    options, unseen = plan.options, plan.validation
    if not options.end_now:
        checkpoint = _with_new_judge(checkpoint, examples, options, plan.progress, plan.began)
        yield checkpoint
    if options.refit and plan.validation and not options.end_now:
        teacher = plan.teacher(plan.tasks)
        examples = plan.examples(plan.tasks, teacher)
        again = plan.fit(examples, until=epochs)
        if again.interrupted:
            raise KeyboardInterrupt
        checkpoint = replace(checkpoint, state=again.kept.arrays(), ranker=_ranker(teacher),
                             processes=Processes.of(plan.tasks))
        yield checkpoint
        checkpoint = _with_new_judge(checkpoint, examples, replace(options, state=None), plan.progress, plan.began)
        yield checkpoint
        unseen = []
    if teacher is not None:
        yield _completed(checkpoint, plan.tasks, unseen, options, plan.progress)


def _validation_share(training: Sequence[KnownTask], options: TrainingOptions) -> float:
    """The share of the problems for validation: of choices, which are many, so many as MOST_VALIDATED tasks have."""
    if not any(isinstance(task, ChosenTask) for task in training):
        return options.validation
    return min(options.validation, MOST_VALIDATED / len(training))


def _chosen(best: Checkpoint, state: TrainingState[Translator], validation: Sequence[KnownTask],
            report: dict[str, Any]) -> Checkpoint:
    """The checkpoint whose answers to validation problems are better: with the best epoch's weights or the last one's.

    Epochs are compared by the beam alone, whose score is noisy, while answers need the judge and the trees, too. The
    report gets the chosen epoch and the shares of the best measured speed that the answers reach.
    """
    last = replace(best, state=state.average.eval().arrays())
    candidates = {state.epoch: last, state.best_epoch: best}  # one, if the last epoch is the best
    shares = {epoch: answer_shares(checkpoint, validation) for epoch, checkpoint in candidates.items()}
    chosen = max(shares, key=lambda epoch: sum(map(math.log, shares[epoch].values())))
    report["kept_epoch"] = chosen
    report["answer_shares"] = {str(count): share for count, share in shares[chosen].items()}
    return candidates[chosen]


def answer_shares(checkpoint: Checkpoint, tasks: Sequence[KnownTask]) -> dict[int, float]:
    """The share of the best measured speed that the best of COUNTED proposals reach on tasks (geometric means).

    The tasks contain only measured rows.
    """
    proposer, logs = checkpoint.proposer(), np.zeros((len(tasks), max(COUNTED)))
    for index, measured in enumerate(tasks):
        numbers = proposer.scored(measured.task, max(COUNTED)).numbers[:max(COUNTED)]
        reached = np.maximum.accumulate([log_share(measured, number) for number in numbers.tolist()])
        logs[index] = np.pad(reached, (0, max(COUNTED) - len(reached)), mode="edge")
    return {count: math.exp(logs[:, count - 1].mean()) for count in COUNTED}


def untrained(vocabulary: Vocabulary, options: TrainingOptions) -> Translator:
    """A translator with the random weights of the seed."""
    torch.manual_seed(options.seed)
    return Translator.of(vocabulary, width=options.width, layers=options.layers,
                         decoder_layers=options.decoder_layers, heads=options.heads, hidden=options.hidden,
                         dropout=options.dropout, judge=options.judge)


def _ranker(teacher: Trees | None) -> Ranker | None:
    return None if teacher is None else Ranker.of(teacher)


def _completed(checkpoint: Checkpoint, training: Sequence[KnownTask], unseen: Sequence[KnownTask],
               options: TrainingOptions, progress: Say) -> Checkpoint:
    """The checkpoint with its confidence model, and with trees that are fitted to the `unseen` tasks as well."""
    estimator = None
    measured = [task for task in training if isinstance(task, MeasuredTask)]
    if options.confidence and measured:
        known = observe_candidates(checkpoint.proposer().scored,
                                 [task for task in unseen if isinstance(task, MeasuredTask)])
        estimator = fit_confidence(measured, replace(options.trees, threads=options.threads), options.seed, progress,
                                   known)
    checkpoint = replace(checkpoint, estimator=estimator)
    if not unseen:
        return checkpoint
    teacher = make_teacher(training, options, progress)
    return replace(checkpoint, ranker=_ranker(teacher), processes=Processes.of(training))


def fit(model: Translator, vocabulary: Vocabulary, examples: Examples,
        validation: Sequence[KnownTask], options: TrainingOptions, progress: Progress = silent,
        began: float | None = None, until: int | None = None, anchor: Translator | None = None,
        deadline: float | None = None) -> TrainingState[Translator]:
    """Train a translator on examples and return the final state.

    Without validation the last average of the weights is kept. `until` stops the same schedule after so many epochs,
    and no epoch begins that would probably end after the `deadline`, a `time.monotonic`. `anchor` is the translator
    whose predictions the anchored examples keep.
    """
    validation = [measured.measured_only() for measured in validation]

    def score_average(average: Translator) -> dict[str, float]:
        score, first = validate(average, vocabulary, validation)
        return {"share": math.exp(first), "score": score}

    def loss(model: Translator, chosen: Sequence[DrawnExample]) -> Tensor:
        anchored = np.repeat([example.anchored for example in chosen], options.sentences)
        return sentence_loss(model, [example.source for example in chosen],
                             TargetSentences.joined([example.sentences for example in chosen]), anchor, anchored,
                             [example.landscape for example in chosen] if model.size.judge else None)

    fingerprint = _fingerprint(vocabulary, examples, validation, options)
    with drawing(examples.labelled, options) as (draw, given):
        course = Course(loss, partial(_batches, examples, vocabulary, options, draw), _steps(examples, options),
                        score_average if validation else None, options.patience if validation else None, until,
                        deadline)
        return fit_network(model, course, given, fingerprint, progress, began=began)


def _with_new_judge(checkpoint: Checkpoint, examples: Examples, options: TrainingOptions,
                    progress: Progress, began: float) -> Checkpoint:
    """The checkpoint with a judge that learned anew for `options.judge_epochs`, on the same examples.

    The translator stays as it is. The judge learns from whole configurations alone, so one sentence of an example is
    drawn. Raises KeyboardInterrupt if it was interrupted.
    """
    if not options.judge_epochs or not checkpoint.size.judge:
        return checkpoint
    translator, vocabulary = checkpoint.network, checkpoint.vocabulary
    torch.manual_seed(options.seed)
    translator.judge = Judge(translator.size)
    own = replace(options, epochs=options.judge_epochs, sentences=1,
                  state=None if options.state is None else options.state / JUDGE)

    def loss(judge: Judge, chosen: Sequence[DrawnExample]) -> Tensor:
        assert judge is translator.judge
        return judge_loss(translator, [example.source for example in chosen],
                          [example.landscape for example in chosen])

    fingerprint = _fingerprint(vocabulary, examples, [], own)
    with drawing(examples.labelled, own) as (draw, given):
        course = Course(loss, partial(_batches, examples, vocabulary, own, draw), _steps(examples, own))
        state = fit_network(translator.judge, course, given, fingerprint, progress, began=began)
    if state.interrupted:
        raise KeyboardInterrupt
    translator.judge = state.average
    return replace(checkpoint, state=translator.eval().arrays())


def _counts(examples: Examples, options: TrainingOptions) -> tuple[int, int]:
    """The numbers of measured and of labelled examples in an epoch of at most `options.examples`.

    The measured share is at least MEASURED, if there are so many.
    """
    reserved = min(examples.labelled_count, math.floor((1 - MEASURED) * options.examples))
    measured = min(len(examples.measured), options.examples - reserved)
    return measured, min(examples.labelled_count, options.examples - measured)


def _steps(examples: Examples, options: TrainingOptions) -> int:
    """The number of batches in an epoch."""
    return math.ceil(sum(_counts(examples, options)) / options.batch)


def _batches(examples: Examples, vocabulary: Vocabulary, options: TrainingOptions, draw: Draw,
             generator: np.random.Generator) -> Iterator[list[DrawnExample]]:
    """The batches of an epoch. Each example is drawn with a seed of its own, so that any process may draw it."""
    measured = len(examples.measured)
    of_measured, of_labelled = _counts(examples, options)
    order = generator.permutation(np.concatenate([
        generator.choice(measured, of_measured, replace=False),
        measured + generator.choice(examples.labelled_count, of_labelled, replace=False)]))
    seeds = generator.integers(0, 2**62, len(order))
    parts = [slice(first, first + options.batch) for first in range(0, len(order), options.batch)]
    drawn = draw([[(int(number) - measured, int(seed)) for number, seed in zip(order[part], seeds[part], strict=True)
                   if number >= measured] for part in parts])  # in the order of the steps
    for part, labelled in zip(parts, drawn, strict=True):
        indices = itertools.count()  # of the labelled examples of this batch
        yield [labelled(next(indices)) if number >= measured
               else examples.measured[number].drawn(int(seed), vocabulary, options)
               for number, seed in zip(order[part], seeds[part], strict=True)]


def _teacher_share(teacher: Trees | None, validation: Sequence[KnownTask]) -> float | None:
    """The share that the teacher itself reaches on the validation problems, to which it is not fitted."""
    if teacher is None or not validation:
        return None
    validation = [measured.measured_only() for measured in validation]
    return math.exp(float(np.mean([log_share(measured, int(np.argmin(teacher.predict(measured.task.spaces))))
                                   for measured in validation])))


def _fingerprint(vocabulary: Vocabulary, examples: Examples, validation: Sequence[KnownTask],
                 options: TrainingOptions) -> str:
    """A digest of all that determines a training's weights."""
    digest = hashlib.sha256(repr((vocabulary, {name: value for name, value in describe(options).items()
                                               if name not in (*OUTSIDE, "judge_epochs")})).encode())
    for example in examples.measured:
        digest.update(example.source.codes.tobytes() + example.source.words.tobytes() + example.tree.digest())
    if examples.labelled is not None:
        digest.update(examples.labelled.digest())
    for measured in validation:
        digest.update(measured.seconds.tobytes() if isinstance(measured, MeasuredTask)
                      else measured.numbers.tobytes() + measured.weights.tobytes())
    return digest.hexdigest()
