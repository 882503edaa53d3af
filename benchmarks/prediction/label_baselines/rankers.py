"""Rankers: two towers and boosted trees that score whole configurations, among those that training has seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from seqtune.data.labels import Labels
from seqtune.kernels.kernel import Kernel
from seqtune.predictor.labels.classifier_chain import with_values
from seqtune.predictor.labels.examples import Rows
from seqtune.predictor.labels.inputs import TOKENS, Floats, Inputs, tree_columns
from seqtune.predictor.labels.options import LabelOptions
from seqtune.predictor.labels.predictors import LabelPredictions, ValueIndices, valid
from seqtune.predictor.labels.training import fingerprint, fit_examples, vocabulary_of
from seqtune.predictor.labels.translator import LabelSource, SourceEmbedding, TargetVectors
from seqtune.predictor.sequence.vocabulary import Vocabulary
from seqtune.predictor.translator.dimensions import Dimensions

from .lookup import Majority, NearestLabels


class TwoTowerNetwork(nn.Module):
    """Two towers: one embeds the query, the other the configuration; the product of their vectors is the score."""

    def __init__(self, size: Dimensions, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.reader, self.value = SourceEmbedding(size), TargetVectors(size, vocabulary)
        self.query = nn.Sequential(nn.Linear(len(TOKENS) * size.width, size.hidden), nn.GELU(),
                                   nn.Dropout(size.dropout), nn.Linear(size.hidden, size.hidden), nn.GELU(),
                                   nn.Dropout(size.dropout), nn.Linear(size.hidden, size.width))
        self.configuration = nn.Sequential(nn.Linear(size.width, size.hidden), nn.GELU(),
                                           nn.Linear(size.hidden, size.width))

    def forward(self, source: LabelSource, kernel: Tensor, words: Tensor) -> Tensor:
        """Score configurations, given by the words of their values (C, parameter), for B queries: (B, C)."""
        queries = self.query((self.reader(source) + self.value(kernel)).flatten(1))
        scores: Tensor = queries @ self.configuration(self.value(words).sum(-2)).T / 8
        return scores


@dataclass(frozen=True, eq=False)
class _MatchingExamples:
    """Labels of one kernel as the towers learn from them: which of the distinct labels is the one of the query?"""

    inputs: Inputs
    kernel: Tensor  # () the word of the kernel
    words: Tensor  # (configuration, parameter)
    wanted: NDArray[np.int64]  # (label,) number of the right configuration

    @classmethod
    def of(cls, labels: Labels, vocabulary: Vocabulary) -> _MatchingExamples:
        distinct, wanted = np.unique(labels.value_indices, axis=0, return_inverse=True)
        return cls(Inputs.of(labels.queries, vocabulary.words), torch.tensor(vocabulary.kernel(labels.kernel.name)),
                   words_of(labels.kernel, distinct, vocabulary), wanted.reshape(-1))

    def __len__(self) -> int:
        return len(self.wanted)

    def _scores(self, model: TwoTowerNetwork, rows: Rows) -> tuple[Tensor, Tensor]:
        return model(LabelSource.of(self.inputs, rows), self.kernel, self.words), torch.from_numpy(self.wanted[rows])

    def loss(self, model: TwoTowerNetwork, rows: Rows, options: LabelOptions) -> Tensor:
        scores, wanted = self._scores(model, rows)
        return F.cross_entropy(scores, wanted, label_smoothing=options.smoothing)

    def validation_sums(self, model: TwoTowerNetwork, rows: Rows) -> tuple[float, float, int]:
        scores, wanted = self._scores(model, rows)
        return float(F.cross_entropy(scores, wanted, reduction="sum")), float((scores.argmax(1) == wanted).sum()), len(
            rows)


def words_of(kernel: Kernel, indices: ValueIndices, vocabulary: Vocabulary) -> Tensor:
    """The target words of values given by their indices, both (..., parameter). The word for -1 is arbitrary."""
    return torch.from_numpy(np.stack([words[indices[..., column]] for column, words
                                      in enumerate(vocabulary.value_words(kernel.name))], axis=-1))


class TwoTowerRanker:
    """Predicts the configurations that a TwoTowerNetwork scores highest among the valid ones that training has seen."""

    checked = 24  # best configurations whose validity is checked to find five
    block = 256  # queries that are scored at once

    def __init__(self, fitting: Mapping[str, Labels], options: LabelOptions) -> None:
        """Fit the network to labels of all kernels and devices."""
        torch.manual_seed(options.seed)
        self._vocabulary = vocabulary_of(fitting, None)
        self._seen = {  # (label, parameter)
            name: np.unique(labels.value_indices, axis=0) for name, labels in fitting.items()}
        size = Dimensions.of(self._vocabulary, width=options.width, hidden=options.hidden, dropout=options.dropout)
        examples = {name: _MatchingExamples.of(labels, self._vocabulary) for name, labels in fitting.items()}
        model = TwoTowerNetwork(size, self._vocabulary)
        state = fit_examples(model, examples, {}, None, options, fingerprint(model, fitting, None, options))
        self._model = state.kept.eval()

    @torch.inference_mode()
    def predict(self, labels: Labels, count: int) -> LabelPredictions:
        seen = self._seen.get(labels.kernel.name)
        proposed = np.full((len(labels), count, labels.value_indices.shape[1]), -1, np.int16)
        if seen is None:
            return LabelPredictions(proposed, None)
        kernel = torch.tensor(self._vocabulary.kernel(labels.kernel.name))
        words = words_of(labels.kernel, seen, self._vocabulary)
        for begin in range(0, len(labels), self.block):
            rows = np.arange(begin, min(begin + self.block, len(labels)))
            part = labels.queries.take(rows)
            source = LabelSource.of(Inputs.of(part, self._vocabulary.words), np.arange(len(rows)))
            scores = np.asarray(self._model(source, kernel, words).numpy(), np.float32)
            best = np.argsort(-scores, axis=1, kind="stable")[:, :self.checked]
            taken = np.zeros(len(rows), int)
            for rank in range(best.shape[1]):
                chosen = seen[best[:, rank]]
                fits = np.flatnonzero(valid(labels.kernel, part, chosen) & (taken < count))
                proposed[rows[fits], taken[fits]] = chosen[fits]
                taken[fits] += 1
        return LabelPredictions(proposed, None)


@dataclass(frozen=True, slots=True)
class TreeRankerOptions:
    """Options of the trees, and of the configurations that they learn to tell from the labels."""

    rivals: int = 8  # other configurations per label: half from similar problems, half common ones
    rounds: int = 150
    depth: int = 8
    rate: float = 0.15  # learning rate
    most: int = 20_000  # labels of one kernel: more take time and hardly help
    threads: int = 2
    seed: int = 0


class TreeRanker:
    """Boosted trees that classify configurations as the label of a query or a rival; one model per kernel.

    As a LabelPredictor they choose among the labels of similar problems and the most frequent labels.
    """

    def __init__(self, fitting: Mapping[str, Labels], options: TreeRankerOptions) -> None:
        self.options = options
        self._near, self._common = NearestLabels(fitting), Majority(fitting)
        self._models = {name: self._fit(labels) for name, labels in fitting.items()}

    def _fit(self, labels: Labels) -> Any:
        from seqtune.tuner.cost_models.boosting import Boosting

        options, generator = self.options, np.random.default_rng(self.options.seed)
        if len(labels) > options.most:
            labels = labels.take(generator.choice(len(labels), options.most, replace=False))
        rivals = self.candidates(labels, options.rivals, without_first=True)
        columns = tree_columns(labels.queries)
        parts = [with_values(columns, labels.kernel, labels.value_indices)]
        wanted = [np.ones(len(labels))]
        for rank in range(rivals.shape[1]):
            is_other = (rivals[:, rank] != labels.value_indices).any(axis=1)
            fits = np.flatnonzero((rivals[:, rank] >= 0).all(axis=1) & is_other)
            parts.append(with_values(columns[fits], labels.kernel, rivals[fits, rank]))
            wanted.append(np.zeros(len(fits)))
        boosting = Boosting("binary:logistic", options.rounds, options.depth, options.rate, threads=options.threads,
                            seed=options.seed)
        return boosting.grow(np.concatenate(parts), np.concatenate(wanted))

    def candidates(self, labels: Labels, count: int, without_first: bool = False) -> ValueIndices:
        """Labels of the nearest problems, then the most frequent labels: (label, count, parameter).

        `without_first` leaves out the nearest problem, which in training is the problem itself.
        """
        half = count // 2
        near = self._near.predict(labels, half + without_first).proposed[:, int(without_first):]
        return np.concatenate([near, self._common.predict(labels, count - half).proposed], axis=1)

    def predict(self, labels: Labels, count: int) -> LabelPredictions:
        candidates = self.candidates(labels, 40)
        scores = self._scores(labels, candidates)
        for rank in range(candidates.shape[1]):
            scores[~valid(labels.kernel, labels.queries, candidates[:, rank]), rank] = -np.inf
        for rank in range(1, candidates.shape[1]):  # keep the first of equal configurations
            scores[(candidates[:, :rank] == candidates[:, rank, None]).all(axis=2).any(axis=1), rank] = -np.inf
        best = np.argsort(-scores, axis=1, kind="stable")[:, :count]
        proposed = np.take_along_axis(candidates, best[:, :, None], axis=1)
        proposed[np.take_along_axis(scores, best, axis=1) == -np.inf] = -1
        return LabelPredictions(proposed, None)

    def _scores(self, labels: Labels, candidates: ValueIndices) -> Floats:
        """The log-odds of each candidate, (label, candidate)."""
        columns, model = tree_columns(labels.queries), self._models.get(labels.kernel.name)
        scores = np.full(candidates.shape[:2], -30, np.float32)
        if model is None:
            return scores
        for rank in range(candidates.shape[1]):
            rows = np.flatnonzero((candidates[:, rank] >= 0).all(axis=1))
            scores[rows, rank] = model.inplace_predict(
                with_values(columns[rows], labels.kernel, candidates[rows, rank]), predict_type="margin")
        return scores
