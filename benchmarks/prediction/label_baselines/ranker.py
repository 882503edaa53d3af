"""TreeRanker: boosted trees that score whole configurations, among those that training has seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqtune.integrations.miopen.predictor.chains import Floats, tree_columns, with_values
from seqtune.integrations.miopen.predictor.labels import Labels
from seqtune.integrations.miopen.predictor.learning import ValueIndices

from .lookup import Majority, NearestLabels
from .validity import valid


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

    They choose among the labels of similar problems and the most frequent labels.
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
        columns = tree_columns(labels.pairs())
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
        near = self._near.propose(labels, half + without_first)[:, int(without_first):]
        return np.concatenate([near, self._common.propose(labels, count - half)], axis=1)

    def propose(self, labels: Labels, count: int) -> ValueIndices:
        """The `count` best candidates of each label."""
        candidates = self.candidates(labels, 40)
        scores = self._scores(labels, candidates)
        for rank in range(candidates.shape[1]):
            scores[~valid(labels.kernel, labels, candidates[:, rank]), rank] = -np.inf
        for rank in range(1, candidates.shape[1]):  # keep the first of equal configurations
            scores[(candidates[:, :rank] == candidates[:, rank, None]).all(axis=2).any(axis=1), rank] = -np.inf
        best = np.argsort(-scores, axis=1, kind="stable")[:, :count]
        proposed = np.take_along_axis(candidates, best[:, :, None], axis=1)
        proposed[np.take_along_axis(scores, best, axis=1) == -np.inf] = -1
        return proposed

    def _scores(self, labels: Labels, candidates: ValueIndices) -> Floats:
        """The log-odds of each candidate, (label, candidate)."""
        columns, model = tree_columns(labels.pairs()), self._models.get(labels.kernel.name)
        scores = np.full(candidates.shape[:2], -30, np.float32)
        if model is None:
            return scores
        for rank in range(candidates.shape[1]):
            rows = np.flatnonzero((candidates[:, rank] >= 0).all(axis=1))
            scores[rows, rank] = model.inplace_predict(
                with_values(columns[rows], labels.kernel, candidates[rows, rank]), predict_type="margin")
        return scores
