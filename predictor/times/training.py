"""Training: a translator from measurements, by performance: near ties are near equal, the hopeless do not matter.

Few configurations of few problems are measured, and a translator wants to see whole distributions over whole spaces.
So a teacher (boosted trees fitted on the same training rows, and nothing else) fills in what was not measured, and
labels more problems, sampled like real ones. Held-out problems are never touched; validation problems, on which
training stops early, are split off by problem and unknown to the teacher of that training.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqtune.data.measured_tasks import Data, counted, measured_tasks, split
from seqtune.errors import MisuseError
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import MeasuredTask

from ..sequence.beam import beam_search_many
from ..sequence.vocabulary import Vocabulary
from ..training.loop import Batch, Course, OnProgress, Verdict
from ..training.loop import fit as fit_network
from ..training.state import TrainingState, describe
from ..trees.cost_trees import Trees
from ..trees.ranker import Ranker
from .checkpoint import Checkpoint
from .decoding import TranslatorWords
from .lessons import Lesson, held_out_problems, make_lessons, make_teacher, vocabulary_of
from .loss import sentence_loss
from .targets import Examples
from .training_options import TrainingOptions
from .translator import Translator


def train(data: Data, options: TrainingOptions | None = None,
          on_progress: OnProgress | None = None,
          leave_out: Collection[Problem] = ()) -> tuple[Checkpoint, dict[str, Any]]:
    """A checkpoint trained on the training part of a data set, and a report that JSON can hold.

    The same seed, data and machine give the same weights. Ctrl-C ends the training and keeps the best so far.
    """
    options = options or TrainingOptions()
    found = [measured for measured in measured_tasks(data, held_out=False) if measured.problem not in leave_out]
    if not found:
        raise MisuseError("the data set has no training problem that a kernel here solves; nothing to learn from")
    vocabulary = vocabulary_of(found)
    held_out = held_out_problems(data)
    fitting, validation = split(found, options.validation, options.seed)
    torch.manual_seed(options.seed)
    model = Translator.of(vocabulary, width=options.width, layers=options.layers, heads=options.heads,
                          hidden=options.hidden, dropout=options.dropout)
    began = time.monotonic()
    teacher = make_teacher(fitting, options)
    lessons = make_lessons(fitting, teacher, vocabulary, options, held_out)
    state = fit(model, vocabulary, lessons, validation, options, on_progress, began=began)
    report: dict[str, Any] = {
        "problems": len({measured.problem.key for measured in found}),
        "devices": sorted({measured.device.name for measured in found}),
        "cases": len(fitting), "validation_cases": len(validation), "lessons": len(lessons),
        "measurements": int(sum(measured.known.sum() for measured in found)),
        "parameters": sum(tensor.numel() for tensor in model.parameters()),
        "epochs": state.epoch, "best_epoch": state.best_epoch, "interrupted": state.interrupted,
        "validation_share": state.history[state.best_epoch - 1]["share"] if validation else None,
        "teacher_share": _teacher_share(teacher, validation), "history": state.history,
    }
    best = state.kept
    if options.refit and validation and not state.interrupted:
        torch.manual_seed(options.seed)
        again = Translator.of(vocabulary, width=options.width, layers=options.layers, heads=options.heads,
                              hidden=options.hidden, dropout=options.dropout)
        teacher = make_teacher(found, options)
        lessons = make_lessons(found, teacher, vocabulary, options, held_out)
        best = fit(again, vocabulary, lessons, [], options, on_progress, began=began, until=state.best_epoch).kept
    report["seconds"] = time.monotonic() - began
    metrics = {name: value for name, value in report.items() if name != "history"}
    provenance = {"trained_on": {name: report[name] for name in ("problems", "devices", "measurements")},
                  "options": describe(options)}
    ranker = None if teacher is None else Ranker.of(teacher)
    return Checkpoint(best.eval(), vocabulary, provenance, metrics, options.seed, ranker), report


def fit(model: Translator, vocabulary: Vocabulary, lessons: Sequence[Lesson], validation: Sequence[MeasuredTask],
        options: TrainingOptions, on_progress: OnProgress | None = None, began: float | None = None,
        until: int | None = None, anchor: Translator | None = None) -> TrainingState[Translator]:
    """Train a translator on lessons. Without validation the last average is kept; `until` stops the same schedule
    early. `anchor` is the translator that anchored lessons should not lead away from."""
    judged = [measured.measured_only() for measured in validation]

    def judge(average: Translator) -> Verdict:
        score, first = validate(average, vocabulary, judged)
        return Verdict({"share": math.exp(first), "score": score}, score)

    course = Course(lambda generator: _batches(lessons, options, generator, anchor), judge if judged else None,
                    options.patience if judged else None, until, second_decay=0.98, fused=False, first_step=1)
    return fit_network(model, course, options, _fingerprint(vocabulary, lessons, judged, options), on_progress,
                       began=began)


def _batches(lessons: Sequence[Lesson], options: TrainingOptions, generator: np.random.Generator,
             anchor: Translator | None) -> list[Batch[Translator]]:
    """The batches of an epoch: all measured problems, and as many sampled ones as there is room for."""
    measured, sampled = (np.flatnonzero([lesson.sampled == kind for lesson in lessons]) for kind in (False, True))
    room = min(len(sampled), max(0, options.lessons - len(measured)))
    order = generator.permutation(np.concatenate([measured, generator.choice(sampled, room, replace=False)]))

    def batch(chosen: Sequence[Lesson]) -> Batch[Translator]:
        def loss(model: Translator) -> Tensor:
            examples = Examples.joined([lesson.tree.sample(generator, options.sentences, options.explore)
                                        for lesson in chosen])
            anchored = np.repeat([lesson.anchored for lesson in chosen], options.sentences)
            return sentence_loss(model, [lesson.source for lesson in chosen], examples, anchor, anchored)

        return Batch(loss, len(chosen))

    return [batch([lessons[number] for number in order[first:first + options.batch]])
            for first in range(0, len(order), options.batch)]


def validate(model: Translator, vocabulary: Vocabulary, judged: Sequence[MeasuredTask]) -> tuple[float, float]:
    """Mean log shares among the measured rows (`judged` are cut down to those): of the first five proposals, weighed by
    their probability, and of the first one alone, which is what counts but jumps about where problems are few."""
    words = TranslatorWords(model, vocabulary)
    scores: list[tuple[float, float]] = []
    for begin in range(0, len(judged), 64):
        part = judged[begin:begin + 64]
        proposals = beam_search_many(words, [measured.task for measured in part])
        for measured, found in zip(part, proposals, strict=True):
            logs = [log_share(measured, measured.task.number(candidate.configuration)) for candidate in found]
            weights = [(candidate.probability or 0.0) + 1e-12 for candidate in found]
            scores.append((float(np.average(logs, weights=weights)), logs[0]))
    score, first = np.mean(scores, axis=0)
    return float(score), float(first)


def log_share(measured: MeasuredTask, number: int) -> float:
    """Log share of one pick."""
    default = measured.time(measured.task.default)
    return math.log(measured.best / float(counted(measured.seconds[number], default, measured.seconds)))


def _teacher_share(teacher: Trees | None, validation: Sequence[MeasuredTask]) -> float | None:
    """What the teacher itself reaches on the validation problems, which it does not know either."""
    if teacher is None or not validation:
        return None
    judged = [measured.measured_only() for measured in validation]
    return math.exp(float(np.mean([log_share(measured, int(np.argmin(teacher.predict(measured.task.spaces))))
                                   for measured in judged])))


def _fingerprint(vocabulary: Vocabulary, lessons: Sequence[Lesson], judged: Sequence[MeasuredTask],
                 options: TrainingOptions) -> str:
    found = hashlib.sha256(repr((vocabulary, {name: value for name, value in describe(options).items()
                                              if name not in ("state", "save_every", "threads")})).encode())
    for lesson in lessons:
        found.update(lesson.source.codes.tobytes() + lesson.source.words.tobytes() + lesson.tree.digest())
    for measured in judged:
        found.update(measured.seconds.tobytes())
    return found.hexdigest()
