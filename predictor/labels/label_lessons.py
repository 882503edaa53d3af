"""Lessons of labels: what one step of training learns from, the labels of one kernel or the races of solvers.

Sentences of one kernel are equally long, so nothing is padded and only the words that a parameter has are scored. No
search space is enumerated: what a space forbids hardly occurs among labels, and prediction rules it out exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from seqtune.data.labels import Labels, Races

from ..sequence.vocabulary import BEGIN, Vocabulary
from .inputs import Inputs
from .label_options import LabelOptions
from .translator import SentenceModel, Source

Student = TypeVar("Student", bound=nn.Module, contravariant=True)
Rows = NDArray[np.int64]


class LabelLesson(Protocol[Student]):
    """Examples of one sort."""

    def __len__(self) -> int: ...

    def loss(self, model: Student, rows: Rows, options: LabelOptions) -> Tensor:
        """Mean nats of some examples."""
        ...

    def judge(self, model: Student, rows: Rows) -> tuple[float, float, int]:
        """Sums over the choices of some examples: nats, how many were told right, how many there are."""
        ...


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
