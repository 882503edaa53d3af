"""Training of a network on labels of all kernels and devices, and on races of their solvers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from seqtune.data.labels import Labels, Races
from seqtune.data.queries import Questions
from seqtune.errors import MisuseError
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.miopen.solver import BACKEND

from ..networks.dimensions import Dimensions
from ..sequence.vocabulary import Vocabulary
from ..training.loop import Batch, Course, OnProgress, Verdict, fit
from ..training.state import TrainingState, describe
from .label_lessons import LabelLesson, RaceLesson, Rows, Sentences
from .label_options import LabelOptions
from .translator import LabelTranslator, SentenceModel

Net = TypeVar("Net", bound=nn.Module)


@dataclass(frozen=True, eq=False)
class Trained:
    """What a training ends with."""

    model: SentenceModel
    vocabulary: Vocabulary
    report: dict[str, Any]


Make = Callable[[Dimensions, Vocabulary], SentenceModel]


def vocabulary_of(labels: Mapping[str, Labels], races: Races | None) -> Vocabulary:
    """The words of all kernels and devices; solvers that are only raced are kernels without parameters."""
    kernels = [one.kernel for one in labels.values()]
    devices = [device for one in labels.values() for device in one.questions.devices]
    if races is not None:
        kernels += [Kernel(name, "convnd", (BACKEND,), (), (), ()) for name in races.names if name not in labels]
        devices += races.questions.devices
    built = Vocabulary.build(kernels, dict.fromkeys(devices))
    return Vocabulary(built.names, built.words, built.targets, built.kernels)  # what words settle is not seen


def train(labels: Mapping[str, Labels], races: Races | None = None, options: LabelOptions | None = None,
          on_progress: OnProgress | None = None, start: Trained | None = None,
          make: Make = LabelTranslator, say: Callable[[str], None] = lambda step: None) -> Trained:
    """Learns from all labels and races given. `start` goes on from another training's weights and keeps its words."""
    options = options or LabelOptions()
    if not labels:
        raise MisuseError("there are no labels to learn from: find-dbs hold solvers' times alone; import perf-dbs, too")
    vocabulary = vocabulary_of(labels, races) if start is None else start.vocabulary
    torch.manual_seed(options.seed)
    size = Dimensions.of(vocabulary, width=options.width, layers=options.layers, heads=options.heads,
                         hidden=options.hidden, dropout=options.dropout, word_dropout=0.02)
    model = make(size if start is None else start.model.size, vocabulary)
    if start is not None:
        model.load_state_dict(start.model.state_dict())
    parts = {name: set_aside(one, options.validation) for name, one in labels.items()}
    lessons = {name: Sentences.of(fitting, vocabulary) for name, (fitting, _) in parts.items() if len(fitting)}
    judged = {name: Sentences.of(aside, vocabulary) for name, (_, aside) in parts.items() if len(aside) >= 20}
    race = None if races is None else RaceLesson.of(races, vocabulary)
    state = fit_lessons(model, lessons, judged, race, options, fingerprint(model, labels, races, options), on_progress,
                        say)
    report = {"labels": sum(map(len, labels.values())), "races": 0 if races is None else len(races),
              "kernels": len(labels), "parameters": sum(one.numel() for one in model.parameters()),
              "epochs": state.epoch, "history": state.history}
    return Trained(state.kept.eval(), vocabulary, report)


def fit_lessons(model: Net, lessons: Mapping[str, LabelLesson[Net]], judged: Mapping[str, LabelLesson[Net]],
                race: LabelLesson[Net] | None, options: LabelOptions, fingerprint: str = "",
                on_progress: OnProgress | None = None,
                say: Callable[[str], None] = lambda step: None) -> TrainingState[Net]:
    """Train any model on lessons, judged on others after every epoch. Without those the latest average is kept."""
    course = Course(lambda generator: _batches(lessons, race, options, generator),
                    (lambda average: _judge(average, judged)) if judged else None)
    return fit(model, course, options, fingerprint, on_progress, say)


def _batches(lessons: Mapping[str, LabelLesson[Net]], race: LabelLesson[Net] | None, options: LabelOptions,
             generator: np.random.Generator) -> list[Batch[Net]]:
    """The batches of an epoch. Small lessons are shown more often than their share."""

    def batch(lesson: LabelLesson[Net], rows: Rows) -> Batch[Net]:
        def loss(model: Net) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
                return lesson.loss(model, rows, options)

        return Batch(loss, 0 if lesson is race else len(rows))

    batches: list[Batch[Net]] = []
    counts = shown([len(lesson) for lesson in lessons.values()], options.even, options.most)
    for lesson, count in zip(lessons.values(), counts, strict=True):
        rounds = math.ceil(count / len(lesson))
        order = np.concatenate([generator.permutation(len(lesson)) for _ in range(rounds)])[:count]
        size = min(options.batch, max(options.least_batch, count // options.steps))
        batches += [batch(lesson, rows) for rows in np.array_split(order, math.ceil(count / size))]
    if race is not None:
        for _ in range(math.ceil(options.races * len(batches))):
            batches.append(batch(race, generator.integers(0, len(race), min(options.race_batch, len(race)))))
    return [batches[number] for number in generator.permutation(len(batches))]


def shown(sizes: Sequence[int], even: float, most: float) -> list[int]:
    """How many labels of each kernel an epoch shows: altogether about as many as there are, of small kernels more than
    their share, since all kernels count alike.

    >>> shown([10_000, 100], 0.5, 3.0)
    [7106, 300]
    """
    usual = sum(sizes) / len(sizes)
    return [round(min(most * size, size**even * usual ** (1 - even))) for size in sizes]


@torch.inference_mode()
def _judge(model: Net, judged: Mapping[str, LabelLesson[Net]]) -> Verdict:
    """Nats per choice (`validation`) and the share told right, as means over lessons."""
    model.eval()
    means = []
    for lesson in judged.values():
        parts = np.array_split(np.arange(len(lesson)), math.ceil(len(lesson) / 512))
        nats, right, count = np.sum([lesson.judge(model, rows) for rows in parts], axis=0).tolist()
        means.append((nats / count, right / count))
    nats, right = np.mean(means, axis=0).tolist()
    return Verdict({"validation": nats, "right": right})


def set_aside(labels: Labels, share: int) -> tuple[Labels, Labels]:
    """All labels but those of one problem in `share`, and those; by the problems' hashes, as what is held out."""
    hashes = labels.questions.hashes // np.uint64(1000)
    aside = hashes % np.uint64(share) == 0 if share else np.zeros(len(hashes), np.bool_)
    return labels.take(np.flatnonzero(~aside)), labels.take(np.flatnonzero(aside))


def fingerprint(model: nn.Module, labels: Mapping[str, Labels], races: Races | None, options: LabelOptions) -> str:
    """Of a training that begins with this model: a hash of its weights, the options, and all that it learns from."""
    found = hashlib.sha256(repr({name: value for name, value in describe(options).items()
                                 if name not in ("state", "save_every", "threads")}).encode())
    for name, tensor in model.state_dict().items():
        found.update(name.encode() + tensor.numpy().tobytes())
    for one in labels.values():
        found.update(repr((one.kernel.name, one.kernel.parameters)).encode() + one.places.tobytes())
        found.update(_asked(one.questions))
    if races is not None:
        found.update(repr(races.names).encode() + races.solver.tobytes() + races.starts.tobytes()
                     + races.seconds.tobytes() + _asked(races.questions))
    return found.hexdigest()


def _asked(questions: Questions) -> bytes:
    return repr(questions.devices).encode() + questions.device.tobytes() + questions.hashes.tobytes()
