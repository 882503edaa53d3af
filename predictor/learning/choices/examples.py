"""Training examples of choices: what another tuner chose for one kernel, or how long its solvers take.

Sentences of one kernel have the same length, so nothing is padded, and every value of a parameter is scored. No search
space is enumerated: choices are hardly ever outside of it, and prediction excludes what is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from seqtune.data.labels import Labels, SolverTimings

from ...sequence.source_columns import SourceColumns
from ...sequence.vocabulary import BEGIN, Vocabulary, Words
from ...translator.translator import Choices, Source, Translator
from .options import ChoiceOptions

Rows = NDArray[np.int64]


class ExampleSet(Protocol):
    """Training examples of one kind."""

    def __len__(self) -> int: ...

    def loss(self, model: Translator, rows: Rows, options: ChoiceOptions) -> Tensor:
        """The mean loss in nats of the examples with these row numbers."""
        ...

    def validation_sums(self, model: Translator, rows: Rows) -> tuple[float, float, int]:
        """Sums over the examples with these row numbers: nats, right predictions, all predictions."""
        ...


@dataclass(frozen=True, eq=False)
class ChoiceExamples:
    """The choices for one kernel as a translator reads them."""

    sources: SourceColumns
    inputs: Words  # (choice, 1 + parameter) the words that are read: <begin>, the kernel's, the values' but the last
    following: tuple[Words, ...]  # for each parameter: the words of its values
    indices: NDArray[np.int64]  # (choice, parameter) index of the chosen value

    @classmethod
    def of(cls, labels: Labels, vocabulary: Vocabulary) -> ChoiceExamples:
        """Convert labels; those with a value that the kernel does not know are left out."""
        labels = labels.known()
        name = labels.kernel.name
        choices = vocabulary.value_words(name)
        inputs = np.stack([np.full(len(labels), BEGIN), np.full(len(labels), vocabulary.kernel(name)),
                           *(words[labels.value_indices[:, column]] for column, words in enumerate(choices[:-1]))],
                          axis=1)
        return cls(SourceColumns.of(labels.queries, vocabulary), inputs, choices,
                   labels.value_indices.astype(np.int64))

    def __len__(self) -> int:
        return len(self.indices)

    def scores(self, model: Translator, rows: Rows) -> list[Tensor]:
        """Score all values of each parameter after the true values before it: (row, value) for each parameter."""
        lengths = [len(words) for words in self.following]
        position = (np.arange(len(rows))[:, None] * self.inputs.shape[1]
                    + np.repeat(np.arange(1, 1 + len(lengths)), lengths))
        scores = scored(model, self.sources, rows, self.inputs[rows], position,
                        np.broadcast_to(np.concatenate(self.following), position.shape))
        return list(torch.split(scores.view(len(rows), -1), lengths, dim=1))

    def loss(self, model: Translator, rows: Rows, options: ChoiceOptions) -> Tensor:
        """The mean loss in nats for each parameter: the cross-entropy against all values that were not chosen."""
        wanted = torch.from_numpy(self.indices[rows])
        return torch.stack([F.cross_entropy(scores, wanted[:, column], label_smoothing=options.smoothing)
                            for column, scores in enumerate(self.scores(model, rows))]).mean()

    def validation_sums(self, model: Translator, rows: Rows) -> tuple[float, float, int]:
        """The sums over parameters: nats, right values, all values."""
        wanted, nats, right = torch.from_numpy(self.indices[rows]), 0.0, 0.0
        for column, scores in enumerate(self.scores(model, rows)):
            nats += float(F.cross_entropy(scores, wanted[:, column], reduction="sum"))
            right += float((scores.argmax(1) == wanted[:, column]).sum())
        return nats, right, wanted.numel()


@dataclass(frozen=True, eq=False)
class SolverTimingExamples:
    """The timings of solvers as a translator learns from them.

    After <begin> it predicts which of the timed solvers is fastest, and that the fastest is among them.
    """

    sources: SourceColumns
    timings: SolverTimings  # its solvers are numbered as the vocabulary's kernels
    words: Words  # (solver,) the words of those kernels

    @classmethod
    def of(cls, timings: SolverTimings, vocabulary: Vocabulary) -> SolverTimingExamples:
        """Convert timings, all of whose solvers must be kernels of the vocabulary."""
        names = tuple(kernel.name for kernel in vocabulary.kernels)
        return cls(SourceColumns.of(timings.queries, vocabulary), timings.named(names),
                   np.array([vocabulary.kernel(name) for name in names]))

    def __len__(self) -> int:
        return len(self.timings)

    def scores(self, model: Translator, rows: Rows) -> tuple[Tensor, Tensor, SolverTimings]:
        """Score the timed solvers of the queries with these row numbers.

        Returns their log-probabilities (entry,), the log-probability that the fastest solver is one of them (query,),
        and the timings of these queries.
        """
        timings = self.timings.take(rows)
        owner = torch.from_numpy(np.repeat(np.arange(len(rows)), np.diff(timings.starts)))
        position = np.broadcast_to(np.arange(len(rows))[:, None], (len(rows), len(self.words)))
        every = scored(model, self.sources, rows, np.full((len(rows), 1), BEGIN), position,
                       np.broadcast_to(self.words, position.shape)).view(position.shape)
        scores = F.log_softmax(every, dim=1)[owner, torch.from_numpy(timings.solver)].clamp(min=-60)
        timed = torch.log(torch.zeros(len(rows)).index_add(0, owner, torch.exp(scores)))
        return scores - timed[owner], timed, timings

    def loss(self, model: Translator, rows: Rows, options: ChoiceOptions) -> Tensor:
        """The mean loss in nats per query: cross-entropy against probabilities that fall with the time of a solver."""
        logs, timed, timings = self.scores(model, rows)
        lengths = np.diff(timings.starts)
        best = np.repeat(np.minimum.reduceat(timings.seconds, timings.starts[:-1]), lengths)
        wanted = np.exp(-np.minimum((timings.seconds / best - 1) / options.tau, 50))
        wanted /= np.repeat(np.add.reduceat(wanted, timings.starts[:-1]), lengths)
        return (-(torch.from_numpy(wanted.astype(np.float32)) * logs).sum() - options.applies * timed.sum()) / len(rows)

    def validation_sums(self, model: Translator, rows: Rows) -> tuple[float, float, int]:
        """The sums over queries: nats, right solvers, all queries."""
        logs, _, timings = self.scores(model, rows)
        lengths = np.diff(timings.starts)
        fastest = timings.seconds <= np.repeat(np.minimum.reduceat(timings.seconds, timings.starts[:-1]), lengths)
        first = logs.numpy() >= np.repeat(np.maximum.reduceat(logs.numpy(), timings.starts[:-1]), lengths)
        return -float(logs[torch.from_numpy(fastest)].sum()), float((fastest & first).sum()), len(rows)


def scored(model: Translator, sources: SourceColumns, rows: Rows, inputs: Words, position: Rows,
           words: Words) -> Tensor:
    """Score words after the positions of sentences that begin with `inputs` (row, T), for the queries of these rows.

    `position` (row, R) is row * T + the index of the word before, `words` (row, R): scores (row * R,), in 32 bits.
    """
    derived = model.size.derived
    choices = Choices(torch.from_numpy(position.ravel()), torch.from_numpy(words.ravel()),
                      torch.full((words.size, derived), torch.nan))
    scores: Tensor = model(Source.of(sources.batch(rows)), torch.from_numpy(inputs),
                           torch.full((*inputs.shape, derived), torch.nan), choices)
    return scores.float()
