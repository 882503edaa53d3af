"""Training of a model of sentences on labels of all kernels and devices, and on races of their solvers.

Sentences of one kernel are equally long, so nothing is padded and only the words that a parameter has are scored. No
search space is enumerated: what a space forbids hardly occurs among labels, and prediction rules it out exactly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from seqtune.data.labels import Labels, Races
from seqtune.data.queries import Questions
from seqtune.errors import MisuseError
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.miopen.solver import BACKEND

from ..networks.dimensions import Dimensions
from ..sequence.vocabulary import BEGIN, Vocabulary
from ..training.loop import LabelOptions, OnProgress, Rows, fit
from ..training.state import describe
from .inputs import Inputs
from .translator import LabelTranslator, SentenceModel, Source


@dataclass(frozen=True, eq=False)
class Sentences:
    """A lesson: labels of one kernel as a model reads them."""

    inputs: Inputs
    words: NDArray[np.int64]  # (label, 1 + parameter) the kernel's word, then the values'
    following: tuple[Tensor, ...]  # per parameter: the words of its values
    places: NDArray[np.int64]  # (label, parameter) which of them is wanted

    @classmethod
    def of(cls, labels: Labels, vocabulary: Vocabulary) -> Sentences:
        """Labels with unknown values are left out."""
        labels = labels.known()
        name = labels.kernel.name
        choices = vocabulary.places(name)
        words = np.stack([np.full(len(labels), vocabulary.kernel(name)),
                          *(words[labels.places[:, column]] for column, words in enumerate(choices))], axis=1)
        return cls(Inputs.of(labels.questions, vocabulary.words), words,
                   tuple(torch.from_numpy(words) for words in choices), labels.places.astype(np.int64))

    def __len__(self) -> int:
        return len(self.places)

    def scores(self, model: SentenceModel, rows: Rows) -> list[Tensor]:
        """Of all values of each parameter after the true ones before it: (row, value) per parameter."""
        found: list[Tensor] = model(Source.of(self.inputs, rows), torch.from_numpy(self.words[rows, :-1]),
                                    self.following)
        return found

    def loss(self, model: SentenceModel, rows: Rows, options: LabelOptions) -> Tensor:
        """Mean nats per parameter."""
        wanted = torch.from_numpy(self.places[rows])
        return torch.stack([F.cross_entropy(scores.float(), wanted[:, column], label_smoothing=options.smoothing)
                            for column, scores in enumerate(self.scores(model, rows))]).mean()

    def judge(self, model: SentenceModel, rows: Rows) -> tuple[float, float, int]:
        """Choices are parameters."""
        wanted, nats, right = torch.from_numpy(self.places[rows]), 0.0, 0.0
        for column, scores in enumerate(self.scores(model, rows)):
            nats += float(F.cross_entropy(scores, wanted[:, column], reduction="sum"))
            right += float((scores.argmax(1) == wanted[:, column]).sum())
        return nats, right, wanted.numel()


@dataclass(frozen=True, eq=False)
class RaceLesson:
    """A lesson: after <begin>, which of the solvers that were timed is fastest, and that it is none of the others."""

    inputs: Inputs
    races: Races  # solvers numbered by the vocabulary's kernels
    words: Tensor  # (solver,) of those kernels

    @classmethod
    def of(cls, races: Races, vocabulary: Vocabulary) -> RaceLesson:
        """All solvers of the races must be kernels of the vocabulary."""
        names = tuple(kernel.name for kernel in vocabulary.kernels)
        words = torch.tensor([vocabulary.kernel(name) for name in names])
        return cls(Inputs.of(races.questions, vocabulary.words), races.named(names), words)

    def __len__(self) -> int:
        return len(self.races)

    def scores(self, model: SentenceModel, rows: Rows) -> tuple[Tensor, Tensor, Races]:
        """Of some races: log-probabilities of the solvers timed (entry,), log-probabilities that the fastest is one of
        them (race,), and the races."""
        races = self.races.take(rows)
        owner = torch.from_numpy(np.repeat(np.arange(len(rows)), np.diff(races.starts)))
        states, _ = model.decode(torch.full((len(rows), 1), BEGIN), model.encode(Source.of(self.inputs, rows)))
        every = F.log_softmax(model.score(states[:, 0], self.words).float(), dim=1)
        scores = every[owner, torch.from_numpy(races.solver)].clamp(min=-60)
        timed = torch.log(torch.zeros(len(rows)).index_add(0, owner, torch.exp(scores)))
        return scores - timed[owner], timed, races

    def loss(self, model: SentenceModel, rows: Rows, options: LabelOptions) -> Tensor:
        """Mean nats per race."""
        logs, timed, races = self.scores(model, rows)
        lengths = np.diff(races.starts)
        best = np.repeat(np.minimum.reduceat(races.seconds, races.starts[:-1]), lengths)
        wanted = np.exp(-np.minimum((races.seconds / best - 1) / options.tau, 50))
        wanted /= np.repeat(np.add.reduceat(wanted, races.starts[:-1]), lengths)
        return (-(torch.from_numpy(wanted.astype(np.float32)) * logs).sum() - options.applies * timed.sum()) / len(rows)

    def judge(self, model: SentenceModel, rows: Rows) -> tuple[float, float, int]:
        """Choices are races."""
        logs, _, races = self.scores(model, rows)
        lengths = np.diff(races.starts)
        won = races.seconds <= np.repeat(np.minimum.reduceat(races.seconds, races.starts[:-1]), lengths)
        first = logs.numpy() >= np.repeat(np.maximum.reduceat(logs.numpy(), races.starts[:-1]), lengths)
        return -float(logs[torch.from_numpy(won)].sum()), float((won & first).sum()), len(rows)


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
    kept = fit(model, lessons, judged, race, options, fingerprint(model, labels, races, options), on_progress,
               say)
    report = {"labels": sum(map(len, labels.values())), "races": 0 if races is None else len(races),
              "kernels": len(labels), "parameters": sum(one.numel() for one in model.parameters()),
              "epochs": kept.epoch, "history": kept.history}
    return Trained(kept.average.eval(), vocabulary, report)


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
