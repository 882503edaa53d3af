"""Training examples of a label model: the labels of one kernel, or the timings of solvers.

Sentences of one kernel have the same length, so nothing is padded and only the words of a parameter's values are
scored. No search space is enumerated: labels are hardly ever outside of it, and prediction excludes what is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from seqtune.data.labels import Labels, SolverTimings

from ..sequence.vocabulary import BEGIN, Vocabulary
from .inputs import Inputs
from .options import LabelOptions
from .translator import LabelSource, SentenceModel

Net_contra = TypeVar("Net_contra", bound=nn.Module, contravariant=True)
Rows = NDArray[np.int64]


class ExampleSet(Protocol[Net_contra]):
    """Training examples of one kind."""

    def __len__(self) -> int: ...

    def loss(self, model: Net_contra, rows: Rows, options: LabelOptions) -> Tensor:
        """The mean loss in nats of the examples with these row numbers."""
        ...

    def validation_sums(self, model: Net_contra, rows: Rows) -> tuple[float, float, int]:
        """Sums over the examples with these row numbers: nats, right predictions, all predictions."""
        ...


@dataclass(frozen=True, eq=False)
class LabelExamples:
    """The labels of one kernel as a model reads them."""

    inputs: Inputs
    words: NDArray[np.int64]  # (label, 1 + parameter) the kernel's word, then the values'
    following: tuple[Tensor, ...]  # for each parameter: the words of its values
    indices: NDArray[np.int64]  # (label, parameter) index of the chosen value

    @classmethod
    def of(cls, labels: Labels, vocabulary: Vocabulary) -> LabelExamples:
        """Convert labels; those with a value that the kernel does not know are left out."""
        labels = labels.known()
        name = labels.kernel.name
        choices = vocabulary.value_words(name)
        words = np.stack([np.full(len(labels), vocabulary.kernel(name)),
                          *(words[labels.value_indices[:, column]] for column, words in enumerate(choices))], axis=1)
        return cls(Inputs.of(labels.queries, vocabulary.words), words,
                   tuple(torch.from_numpy(words) for words in choices), labels.value_indices.astype(np.int64))

    def __len__(self) -> int:
        return len(self.indices)

    def scores(self, model: SentenceModel, rows: Rows) -> list[Tensor]:
        """Score all values of each parameter after the true values before it: (row, value) per parameter."""
        scores: list[Tensor] = model(LabelSource.of(self.inputs, rows), torch.from_numpy(self.words[rows, :-1]),
                                     self.following)
        return scores

    def loss(self, model: SentenceModel, rows: Rows, options: LabelOptions) -> Tensor:
        """The mean loss in nats per parameter."""
        wanted = torch.from_numpy(self.indices[rows])
        return torch.stack([F.cross_entropy(scores.float(), wanted[:, column], label_smoothing=options.smoothing)
                            for column, scores in enumerate(self.scores(model, rows))]).mean()

    def validation_sums(self, model: SentenceModel, rows: Rows) -> tuple[float, float, int]:
        """The sums over parameters: nats, right values, all values."""
        wanted, nats, right = torch.from_numpy(self.indices[rows]), 0.0, 0.0
        for column, scores in enumerate(self.scores(model, rows)):
            nats += float(F.cross_entropy(scores, wanted[:, column], reduction="sum"))
            right += float((scores.argmax(1) == wanted[:, column]).sum())
        return nats, right, wanted.numel()


@dataclass(frozen=True, eq=False)
class SolverTimingExamples:
    """The timings of solvers as a model learns from them.

    After <begin> it predicts which of the timed solvers is fastest, and that the fastest is among them.
    """

    inputs: Inputs
    timings: SolverTimings  # its solvers are numbered as the vocabulary's kernels
    words: Tensor  # (solver,) the words of those kernels

    @classmethod
    def of(cls, timings: SolverTimings, vocabulary: Vocabulary) -> SolverTimingExamples:
        """Convert timings, all of whose solvers must be kernels of the vocabulary."""
        names = tuple(kernel.name for kernel in vocabulary.kernels)
        words = torch.tensor([vocabulary.kernel(name) for name in names])
        return cls(Inputs.of(timings.queries, vocabulary.words), timings.named(names), words)

    def __len__(self) -> int:
        return len(self.timings)

    def scores(self, model: SentenceModel, rows: Rows) -> tuple[Tensor, Tensor, SolverTimings]:
        """Score the timed solvers of the queries with these row numbers.

        Returns their log-probabilities (entry,), the log-probability that the fastest solver is one of them (query,),
        and the timings of these queries.
        """
        timings = self.timings.take(rows)
        owner = torch.from_numpy(np.repeat(np.arange(len(rows)), np.diff(timings.starts)))
        states, _ = model.decode(torch.full((len(rows), 1), BEGIN), model.encode(LabelSource.of(self.inputs, rows)))
        all_logs = F.log_softmax(model.score(states[:, 0], self.words).float(), dim=1)
        scores = all_logs[owner, torch.from_numpy(timings.solver)].clamp(min=-60)
        timed = torch.log(torch.zeros(len(rows)).index_add(0, owner, torch.exp(scores)))
        return scores - timed[owner], timed, timings

    def loss(self, model: SentenceModel, rows: Rows, options: LabelOptions) -> Tensor:
        """The mean loss in nats per query: cross-entropy against probabilities that fall with the time of a solver."""
        logs, timed, timings = self.scores(model, rows)
        lengths = np.diff(timings.starts)
        best = np.repeat(np.minimum.reduceat(timings.seconds, timings.starts[:-1]), lengths)
        wanted = np.exp(-np.minimum((timings.seconds / best - 1) / options.tau, 50))
        wanted /= np.repeat(np.add.reduceat(wanted, timings.starts[:-1]), lengths)
        return (-(torch.from_numpy(wanted.astype(np.float32)) * logs).sum() - options.applies * timed.sum()) / len(rows)

    def validation_sums(self, model: SentenceModel, rows: Rows) -> tuple[float, float, int]:
        """The sums over queries: nats, right solvers, all queries."""
        logs, _, timings = self.scores(model, rows)
        lengths = np.diff(timings.starts)
        fastest = timings.seconds <= np.repeat(np.minimum.reduceat(timings.seconds, timings.starts[:-1]), lengths)
        first = logs.numpy() >= np.repeat(np.maximum.reduceat(logs.numpy(), timings.starts[:-1]), lengths)
        return -float(logs[torch.from_numpy(fastest)].sum()), float((fastest & first).sum()), len(rows)
