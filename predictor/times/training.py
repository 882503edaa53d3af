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
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from seqtune.data.measured_tasks import Data, counted, measured_tasks, split
from seqtune.errors import KernelError, MisuseError, ProblemError
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.task import MeasuredTask, Task

from ..sequence.beam import beam_search_many
from ..sequence.vocabulary import Sentence, Vocabulary
from ..training.schedule import schedule
from ..training.state import Progressed, describe
from ..trees.cost_trees import Trees, TreesOptions
from ..trees.ranker import Ranker
from .checkpoint import Checkpoint
from .decoding import TranslatorWords
from .loss import sentence_loss
from .targets import Examples, Tree
from .translator import Translator

TREES = TreesOptions()  # the teacher is no other than the baseline


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """How to train. The defaults suit some hundred problems on a handful of devices, in minutes on two cores."""

    epochs: int = 60
    patience: int = 25  # epochs without a better validation score, after which training stops: the score is noisy
    batch: int = 32  # problems (with their device) per step
    sentences: int = 8  # drawn for each of them per step: their targets are soft, so few tell much
    rate: float = 1.5e-3  # of AdamW at its peak; the model is small
    warm_up: float = 0.05  # share of the steps
    weight_decay: float = 0.05
    clip: float = 1.0  # norm of the gradient
    average: float = 0.995  # of the weights per step; the average is judged and kept: it is steadier than the last step
    tau: float = 0.04  # a configuration this much slower than the best is wanted e times less: about the noise
    explore: float = 0.25  # share of sentences drawn from a 4 times flatter distribution, for the beam's other paths
    validation: float = 0.12  # share of the problems; 0 trains all epochs on all problems
    refit: bool = False  # then train again on all problems for as many epochs as were best: twice the time
    trees: TreesOptions = TREES  # of the teacher
    teacher: bool = True  # fill in what was not measured; without it only measured rows are learned from
    trust: float = 1.0  # of a measured row in its own time; the rest is the teacher's: 1 suits times as good as ours
    extra: int = 5000  # problems sampled and labelled by the teacher, each for one of the devices: odd sizes need many
    lessons: int = 2000  # in an epoch: all of the measured problems, and as many of the sampled ones as make it up
    width: int = 128
    layers: int = 3
    heads: int = 4
    hidden: int = 256
    dropout: float = 0.05
    seed: int = 0
    threads: int = 2
    state: Path | None = None  # folder in which the training is kept and from which it is resumed
    save_every: int = 5  # epochs


@dataclass(frozen=True, slots=True)
class Progress:
    """Told after every epoch; shares of first proposals are geometric means over validation problems, None without any.
    """

    stage: str  # "training" or "refitting"
    epoch: int
    epochs: int
    loss: float  # nats per sentence above the least possible
    share: float | None
    best: float | None  # the share of the epoch that is kept so far
    seconds: float  # since the training began

    @property
    def text(self) -> str:
        """As a line."""
        share = "" if self.share is None else f", validation share {self.share:.4f} (best {self.best:.4f})"
        return f"{self.stage}: epoch {self.epoch}/{self.epochs}, loss {self.loss:.4f}{share}, {self.seconds:.0f} s"


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Lesson:
    """One problem on one device as the translator sees it: the question, and every prefix of its answers."""

    source: Sentence
    tree: Tree
    sampled: bool  # nothing of it was measured
    anchored: float = 0.0  # how much of what is wanted an anchor says, where there is one


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
    kept = fit(model, vocabulary, lessons, validation, options, on_progress, began=began)
    report: dict[str, Any] = {
        "problems": len({measured.problem.key for measured in found}),
        "devices": sorted({measured.device.name for measured in found}),
        "cases": len(fitting), "validation_cases": len(validation), "lessons": len(lessons),
        "measurements": int(sum(measured.known.sum() for measured in found)),
        "parameters": sum(tensor.numel() for tensor in model.parameters()),
        "epochs": kept.epoch, "best_epoch": kept.best_epoch, "interrupted": kept.interrupted,
        "validation_share": kept.history[kept.best_epoch - 1]["share"] if validation else None,
        "teacher_share": _teacher_share(teacher, validation), "history": kept.history,
    }
    best = kept.best
    if options.refit and validation and not kept.interrupted:
        torch.manual_seed(options.seed)
        again = Translator.of(vocabulary, width=options.width, layers=options.layers, heads=options.heads,
                              hidden=options.hidden, dropout=options.dropout)
        teacher = make_teacher(found, options)
        lessons = make_lessons(found, teacher, vocabulary, options, held_out)
        best = fit(again, vocabulary, lessons, [], options, on_progress, began=began, until=kept.best_epoch).best
    report["seconds"] = time.monotonic() - began
    metrics = {name: value for name, value in report.items() if name != "history"}
    provenance = {"trained_on": {name: report[name] for name in ("problems", "devices", "measurements")},
                  "options": describe(options)}
    ranker = None if teacher is None else Ranker.of(teacher)
    return Checkpoint(best.eval(), vocabulary, provenance, metrics, options.seed, ranker), report


def vocabulary_of(found: Sequence[MeasuredTask]) -> Vocabulary:
    """The words that these tasks need."""
    return Vocabulary.build(*words_of(found))


def words_of(found: Sequence[MeasuredTask]) -> tuple[list[Kernel], list[Any], list[Problem]]:
    """Kernels, devices and recorded problems of the tasks, in order of first appearance."""
    kernels = {space.kernel.name: space.kernel for measured in found for space in measured.task.spaces}
    devices = {measured.device.key: measured.device for measured in found}
    return (list(kernels.values()), list(devices.values()),
            [measured.problem for measured in found if measured.problem.type == "recorded"])


def held_out_problems(data: Data) -> list[Problem]:
    """What no lesson may be near to."""
    return list({measured.problem: None for measured in measured_tasks(data, held_out=True)})


def make_teacher(fitting: Sequence[MeasuredTask], options: TrainingOptions) -> Trees | None:
    """Trees fitted on these tasks, where a teacher is wanted."""
    if not options.teacher:
        return None
    return Trees(fitting, replace(options.trees, threads=options.threads, seed=options.seed))


def make_lessons(fitting: Sequence[MeasuredTask], teacher: Trees | None, vocabulary: Vocabulary,
                 options: TrainingOptions, avoid: Sequence[Problem]) -> list[Lesson]:
    """Lessons from the measured tasks and, with a teacher, from sampled problems as well."""
    if teacher is None:
        known = [measured.measured_only() for measured in fitting]
        return [_lesson(measured, measured.seconds / measured.best - 1, vocabulary, options) for measured in known]
    lessons = [_lesson(measured, teacher.fill(measured, options.trust), vocabulary, options) for measured in fitting]
    for measured in _extra_tasks(fitting, options, avoid):
        if all(teacher.knows(space.kernel) for space in measured.task.spaces):
            lessons.append(_lesson(measured, teacher.fill(measured), vocabulary, options))
    return lessons


def _lesson(measured: MeasuredTask, slowness: Any, vocabulary: Vocabulary, options: TrainingOptions) -> Lesson:
    return Lesson(vocabulary.source(measured.problem, measured.device),
                  Tree(measured.task, slowness, vocabulary, options.tau), not measured.known.any())


def _extra_tasks(fitting: Sequence[MeasuredTask], options: TrainingOptions,
                 avoid: Sequence[Problem]) -> list[MeasuredTask]:
    """Unmeasured tasks of sampled problems: problem types and devices in the proportions of the measured tasks."""
    generator = np.random.default_rng([options.seed, 1])
    chosen = generator.integers(0, len(fitting), options.extra)
    found: list[MeasuredTask] = []
    for kind in sorted({measured.problem.type for measured in fitting}):
        models = [fitting[place] for place in chosen if fitting[place].problem.type == kind]
        try:
            problems = sample_problems(kind, len(models), options.seed + 1000, avoid)
        except ProblemError:
            continue  # a type that nothing samples
        for problem, model in zip(problems, models, strict=True):
            try:
                task = Task.of(problem, model.device)
            except KernelError:
                continue
            found.append(MeasuredTask(task, np.full(len(task), np.nan)))
    return found


@dataclass
class Kept:
    """What a training ends with."""

    best: Translator
    best_score: float
    best_epoch: int
    epoch: int
    history: list[dict[str, float]]
    interrupted: bool


def fit(model: Translator, vocabulary: Vocabulary, lessons: Sequence[Lesson], validation: Sequence[MeasuredTask],
        options: TrainingOptions, on_progress: OnProgress | None = None, began: float | None = None,
        until: int | None = None, anchor: Translator | None = None) -> Kept:
    """The training loop. Without validation the last average is the best; `until` stops the same schedule early.
    `anchor` is the translator that anchored lessons should not lead away from."""
    began = time.monotonic() if began is None else began
    judged = [measured.measured_only() for measured in validation]
    optimizer = torch.optim.AdamW(_groups(model, options), lr=options.rate, betas=(0.9, 0.98))
    stand = Progressed.begin(model, optimizer)
    fingerprint, interrupted = _fingerprint(vocabulary, lessons, judged, options), False
    folder = None if options.state is None or until is not None else options.state
    if folder is not None:
        stand.load(folder, fingerprint)
    threads = torch.get_num_threads()
    torch.set_num_threads(options.threads)
    try:
        while stand.epoch < (until or options.epochs) and (
                not judged or stand.epoch - stand.best_epoch < options.patience):
            loss = _epoch(stand, lessons, options, anchor)
            stand.epoch += 1
            score, first = validate(stand.average, vocabulary, judged) if judged else (float(stand.epoch), 0.0)
            if score > stand.best_score:
                stand.best_score, stand.best_epoch = score, stand.epoch
                stand.best.load_state_dict(stand.average.state_dict())
            stand.history.append({"loss": loss} | ({"share": math.exp(first), "score": score} if judged else {}))
            share, best = (stand.history[place]["share"] if judged else None for place in (-1, stand.best_epoch - 1))
            if folder is not None and stand.epoch % options.save_every == 0:
                stand.save(folder, fingerprint)
            if on_progress is not None:
                on_progress(Progress("training" if until is None else "refitting", stand.epoch, until or options.epochs,
                                     loss, share, best, time.monotonic() - began))
    except KeyboardInterrupt:
        interrupted = True
        if not stand.best_epoch:
            raise
    finally:
        torch.set_num_threads(threads)
    return Kept(stand.best, stand.best_score, stand.best_epoch, stand.epoch, stand.history, interrupted)


def _epoch(stand: Progressed[Translator], lessons: Sequence[Lesson], options: TrainingOptions,
           anchor: Translator | None) -> float:
    """One epoch, seeded by its number, so that a resumed training goes on the same way."""
    generator = np.random.default_rng([options.seed, 2, stand.epoch])
    torch.manual_seed(options.seed * 1_000_003 + stand.epoch)
    measured, sampled = (np.flatnonzero([lesson.sampled == kind for lesson in lessons]) for kind in (False, True))
    room = min(len(sampled), max(0, options.lessons - len(measured)))
    order = generator.permutation(np.concatenate([measured, generator.choice(sampled, room, replace=False)]))
    batches = [order[first:first + options.batch] for first in range(0, len(order), options.batch)]
    total, step = 0.0, stand.epoch * len(batches)
    model = stand.model.train()
    for batch in batches:
        for group in stand.optimizer.param_groups:
            group["lr"] = options.rate * schedule(step / (options.epochs * len(batches)), options.warm_up)
        chosen = [lessons[place] for place in batch]
        examples = Examples.joined([lesson.tree.sample(generator, options.sentences, options.explore)
                                    for lesson in chosen])
        anchored = np.repeat([lesson.anchored for lesson in chosen], options.sentences)
        loss = sentence_loss(model, [lesson.source for lesson in chosen], examples, anchor, anchored)
        stand.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        stand.optimizer.step()
        step += 1
        decay = min(options.average, (1 + step) / (10 + step))  # a short memory while all changes fast
        with torch.no_grad():
            for slow, fast in zip(stand.average.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 1 - decay)
        total += float(loss.detach()) * len(batch)
    return total / len(order)




def _groups(model: Translator, options: TrainingOptions) -> list[dict[str, Any]]:
    """Matrices decay, vectors (biases, norms) do not."""
    parameters = list(model.parameters())
    return [{"params": [tensor for tensor in parameters if tensor.dim() > 1], "weight_decay": options.weight_decay},
            {"params": [tensor for tensor in parameters if tensor.dim() <= 1], "weight_decay": 0.0}]


def validate(model: Translator, vocabulary: Vocabulary, judged: Sequence[MeasuredTask]) -> tuple[float, float]:
    """Mean log shares among the measured rows (`judged` are cut down to those): of the first five proposals, weighed by
    their probability, and of the first one alone, which is what counts but jumps about where problems are few."""
    words = TranslatorWords(model, vocabulary)
    scores: list[tuple[float, float]] = []
    for begin in range(0, len(judged), 64):
        part = judged[begin:begin + 64]
        proposals = beam_search_many(words, [measured.task.spaces for measured in part])
        for measured, found in zip(part, proposals, strict=True):
            logs = [log_share(measured, measured.task.number(candidate.configuration)) for candidate in found]
            weights = [candidate.probability + 1e-12 for candidate in found]
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
