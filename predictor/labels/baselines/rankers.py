"""Rankers: whole configurations of a kernel judged at once, by two towers or by boosted trees.

Alone they are baselines that choose among the configurations that training has seen; behind a beam they reorder what it
proposes (`seqtune.predictor.labels.methods.Beam`).
"""

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
from seqtune.data.queries import Questions
from seqtune.kernels.kernel import Kernel

from ...networks.dimensions import Dimensions
from ...sequence.vocabulary import Vocabulary
from ..classifier_chain import with_values
from ..inputs import TOKENS, Floats, Inputs, tree_columns
from ..label_lessons import Rows
from ..label_options import LabelOptions
from ..methods import Answers, Places, Ranker, valid
from ..training import fingerprint, fit_lessons, vocabulary_of
from ..translator import Reader, Source, TargetVectors
from .lookup import Majority, Nearest


class Candidates:
    """A ranker as a Method: the best of the configurations seen in training that are valid."""

    looked_at = 24  # best ones whose validity is checked before five are taken

    def __init__(self, ranker: Ranker, seen: Mapping[str, Places]) -> None:
        self._ranker, self._seen = ranker, seen

    def answer(self, labels: Labels, count: int) -> Answers:
        seen = self._seen.get(labels.kernel.name)
        proposed = np.full((len(labels), count, labels.places.shape[1]), -1, np.int16)
        if seen is None:
            return Answers(proposed, None)
        for begin in range(0, len(labels), 256):
            rows = np.arange(begin, min(begin + 256, len(labels)))
            part = labels.questions.take(rows)
            every = np.broadcast_to(seen, (len(rows), *seen.shape))
            scores = self._ranker.rank(labels.kernel, part, every)
            best = np.argsort(-scores, axis=1, kind="stable")[:, :self.looked_at]
            taken = np.zeros(len(rows), int)
            for rank in range(best.shape[1]):
                chosen = seen[best[:, rank]]
                fits = np.flatnonzero(valid(labels.kernel, part, chosen) & (taken < count))
                proposed[rows[fits], taken[fits]] = chosen[fits]
                taken[fits] += 1
        return Answers(proposed, None)


def seen_places(fitting: Mapping[str, Labels]) -> dict[str, Places]:
    """The distinct labels of each kernel, on any device."""
    return {name: np.unique(labels.places, axis=0) for name, labels in fitting.items()}


class Towers(nn.Module):
    """One tower reads the question, one the configuration; their product is the score."""

    def __init__(self, size: Dimensions, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.reader, self.value = Reader(size), TargetVectors(size, vocabulary)
        self.question = nn.Sequential(nn.Linear(len(TOKENS) * size.width, size.hidden), nn.GELU(),
                                      nn.Dropout(size.dropout), nn.Linear(size.hidden, size.hidden), nn.GELU(),
                                      nn.Dropout(size.dropout), nn.Linear(size.hidden, size.width))
        self.configuration = nn.Sequential(nn.Linear(size.width, size.hidden), nn.GELU(),
                                           nn.Linear(size.hidden, size.width))

    def asked(self, source: Source, kernel: Tensor) -> Tensor:
        """(B, W) of questions about the kernel of that word."""
        found: Tensor = self.question((self.reader(source) + self.value(kernel)).flatten(1))
        return found

    def answers(self, words: Tensor) -> Tensor:
        """(..., W) of configurations (..., parameter) by the words of their values."""
        found: Tensor = self.configuration(self.value(words).sum(-2))
        return found


@dataclass(frozen=True, eq=False)
class _Matching:
    """A lesson: which of all configurations of the kernel is the label?"""

    inputs: Inputs
    kernel: Tensor  # () its word
    words: Tensor  # (configuration, parameter)
    wanted: NDArray[np.int64]  # (label,)

    @classmethod
    def of(cls, labels: Labels, vocabulary: Vocabulary) -> _Matching:
        distinct, wanted = np.unique(labels.places, axis=0, return_inverse=True)
        return cls(Inputs.of(labels.questions, vocabulary.words), torch.tensor(vocabulary.kernel(labels.kernel.name)),
                   words_of(labels.kernel, distinct, vocabulary), wanted.reshape(-1))

    def __len__(self) -> int:
        return len(self.wanted)

    def _scores(self, model: Towers, rows: Rows) -> tuple[Tensor, Tensor]:
        asked = model.asked(Source.of(self.inputs, rows), self.kernel)
        return asked @ model.answers(self.words).T / 8, torch.from_numpy(self.wanted[rows])

    def loss(self, model: Towers, rows: Rows, options: LabelOptions) -> Tensor:
        scores, wanted = self._scores(model, rows)
        return F.cross_entropy(scores, wanted, label_smoothing=options.smoothing)

    def judge(self, model: Towers, rows: Rows) -> tuple[float, float, int]:
        scores, wanted = self._scores(model, rows)
        return float(F.cross_entropy(scores, wanted, reduction="sum")), float((scores.argmax(1) == wanted).sum()), len(
            rows)


def words_of(kernel: Kernel, places: Places, vocabulary: Vocabulary) -> Tensor:
    """The target words (..., parameter) of values in these places, those of -1 being any."""
    return torch.from_numpy(np.stack([words[places[..., column]] for column, words
                                      in enumerate(vocabulary.places(kernel.name))], axis=-1))


class TwoTowers:
    """Towers as a Ranker."""

    def __init__(self, model: Towers, vocabulary: Vocabulary) -> None:
        self._model, self._vocabulary = model.eval(), vocabulary

    @classmethod
    def fit(cls, fitting: Mapping[str, Labels], options: LabelOptions) -> TwoTowers:
        """On labels of all kernels and devices."""
        torch.manual_seed(options.seed)
        vocabulary = vocabulary_of(fitting, None)
        size = Dimensions.of(vocabulary, width=options.width, hidden=options.hidden, dropout=options.dropout)
        lessons = {name: _Matching.of(labels, vocabulary) for name, labels in fitting.items()}
        model = Towers(size, vocabulary)
        state = fit_lessons(model, lessons, {}, None, options, fingerprint(model, fitting, None, options))
        return cls(state.kept, vocabulary)

    @torch.inference_mode()
    def rank(self, kernel: Kernel, questions: Questions, places: Places) -> Floats:
        inputs = Inputs.of(questions, self._vocabulary.words)
        asked = self._model.asked(Source.of(inputs, np.arange(len(questions))),
                                  torch.tensor(self._vocabulary.kernel(kernel.name)))
        if places.strides[0] == 0:  # the same configurations for every question
            found = asked @ self._model.answers(words_of(kernel, places[0], self._vocabulary)).T
        else:
            answers = self._model.answers(words_of(kernel, places, self._vocabulary))
            found = (asked[:, None] * answers).sum(-1)
        return np.asarray((found / 8).numpy(), np.float32)


@dataclass(frozen=True, slots=True)
class TreeRankerOptions:
    """How the trees grow, and what they are shown beside each label."""

    rivals: int = 8  # other configurations per label: half from similar problems, half common ones
    rounds: int = 150
    depth: int = 8
    rate: float = 0.15
    most: int = 20_000  # labels of one kernel; more cost time and say little
    threads: int = 2
    seed: int = 0


class TreeRanker:
    """Boosted trees that tell labels from rivals, given the question and the configuration; a model per kernel.

    Alone (as a Method) they choose among the labels of similar problems and the commonest ones.
    """

    def __init__(self, fitting: Mapping[str, Labels], options: TreeRankerOptions | None = None) -> None:
        self.options = options or TreeRankerOptions()
        self._near, self._common = Nearest(fitting), Majority(fitting)
        self._models = {name: self._fit(labels) for name, labels in fitting.items()}

    def _fit(self, labels: Labels) -> Any:
        from seqtune.tuner.cost_models.boosting import Boosting

        options, generator = self.options, np.random.default_rng(self.options.seed)
        if len(labels) > options.most:
            labels = labels.take(generator.choice(len(labels), options.most, replace=False))
        rivals = self.candidates(labels, options.rivals, without_first=True)
        columns = tree_columns(labels.questions)
        parts = [with_values(columns, labels.kernel, labels.places)]
        wanted = [np.ones(len(labels))]
        for rank in range(rivals.shape[1]):
            fits = np.flatnonzero((rivals[:, rank] >= 0).all(axis=1) & (rivals[:, rank] != labels.places).any(axis=1))
            parts.append(with_values(columns[fits], labels.kernel, rivals[fits, rank]))
            wanted.append(np.zeros(len(fits)))
        boosting = Boosting("binary:logistic", options.rounds, options.depth, options.rate, threads=options.threads,
                            seed=options.seed)
        return boosting.grow(np.concatenate(parts), np.concatenate(wanted))

    def candidates(self, labels: Labels, count: int, without_first: bool = False) -> Places:
        """Labels of the nearest problems (but the nearest, which may be the problem itself), then the commonest."""
        half = count // 2
        near = self._near.answer(labels, half + without_first).proposed[:, int(without_first):]
        return np.concatenate([near, self._common.answer(labels, count - half).proposed], axis=1)

    def rank(self, kernel: Kernel, questions: Questions, places: Places) -> Floats:
        columns = tree_columns(questions)
        found = np.full(places.shape[:2], -30, np.float32)
        model = self._models.get(kernel.name)
        if model is not None:
            for rank in range(places.shape[1]):
                rows = np.flatnonzero((places[:, rank] >= 0).all(axis=1))
                found[rows, rank] = model.inplace_predict(with_values(columns[rows], kernel, places[rows, rank]),
                                                          predict_type="margin")
        return found

    def answer(self, labels: Labels, count: int) -> Answers:
        found = self.candidates(labels, 40)
        scores = self.rank(labels.kernel, labels.questions, found)
        for rank in range(found.shape[1]):
            scores[~valid(labels.kernel, labels.questions, found[:, rank]), rank] = -np.inf
        for rank in range(1, found.shape[1]):  # of equal ones, the first
            scores[(found[:, :rank] == found[:, rank, None]).all(axis=2).any(axis=1), rank] = -np.inf
        best = np.argsort(-scores, axis=1, kind="stable")[:, :count]
        proposed = np.take_along_axis(found, best[:, :, None], axis=1)
        proposed[np.take_along_axis(scores, best, axis=1) == -np.inf] = -1
        return Answers(proposed, None)
