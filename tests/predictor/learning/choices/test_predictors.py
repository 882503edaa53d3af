"""Methods that predict labels: beams over several sources of next words, greedy decoding, the choice of solvers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqtune.data.dataset import Dataset
from seqtune.data.labels import read_solver_timings
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.candidate import Candidate
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.learning.choices.predictors import Beam, LabelPredictions, allowed_values
from seqtune.predictor.learning.choices.scores import Score, solver_choice_rows
from seqtune.predictor.learning.choices.solver_choice import choose
from seqtune.predictor.learning.choices.training import vocabulary_of
from seqtune.predictor.sequence.beam import beam_search
from seqtune.predictor.sequence.mixture import Average
from tests.support.label_toys import MLIR, Parts
from tests.support.learning.greedy import Greedy
from tests.support.tasks import task_of


class Fixed:
    """A source of next words whose scores are a function of the word."""

    vocabulary: Any

    def __init__(self, vocabulary: Any, score: Any) -> None:
        self.vocabulary, self._score = vocabulary, score

    def start(self, queries: Sequence[Any], allowed: Any) -> tuple[Any, Any]:
        return None, self._score(allowed.words).astype(np.float32)

    def advance(self, state: Any, said: Any, allowed: Any) -> tuple[Any, Any]:
        return None, self._score(allowed.words).astype(np.float32)


def test_an_average_of_equal_sources_proposes_as_one_source_does(label_parts: Parts) -> None:
    vocabulary = vocabulary_of(label_parts[0], None)
    up, down = (Fixed(vocabulary, lambda words, sign=sign: sign * np.sin(words * 12.9)) for sign in (1, -1))
    problem, device = label_parts[0][MLIR].queries.pairs()[0]
    task = task_of(SearchSpace(label_parts[0][MLIR].kernel, problem, device))
    silent = Fixed(vocabulary, lambda words: words * np.nan)
    blend = Average([(up, 3.0), (up, 1.0), (silent, 9.0)])
    alone, same = beam_search(up, task, 8, 5), beam_search(blend, task, 8, 5)
    assert [candidate.configuration for candidate in alone] == [candidate.configuration for candidate in same]
    assert probabilities(alone) == pytest.approx(probabilities(same), rel=1e-4)
    even = beam_search(Average([(up, 1.0), (down, 1.0)]), task, len(task), len(task))
    flat = beam_search(Fixed(vocabulary, lambda words: words * 0.0), task, len(task), len(task))
    assert sum(probabilities(even)) == pytest.approx(1.0, abs=1e-5)
    assert probabilities(even) == pytest.approx(probabilities(flat), rel=1e-4)


def probabilities(candidates: Sequence[Candidate]) -> list[float]:
    """The probability of each candidate, 0 if unknown."""
    return [candidate.probability or 0.0 for candidate in candidates]


def test_greedy_batches_propose_what_look_ahead_proposes(label_checkpoint: Path, label_parts: Parts) -> None:
    loaded = Checkpoint.load(label_checkpoint)
    for words in (loaded.next_word(), Fixed(loaded.vocabulary, lambda words: words * -1.0)):  # needs look-ahead
        for labels in label_parts[1].values():
            quick = Greedy(words).predict(labels, 1).proposed
            assert (quick == Beam(words, width=1).propose(labels, 1)).all()
            assert (quick >= 0).all()


def test_the_choice_of_solvers_learns_which_is_fastest(label_checkpoint: Path, label_data: Dataset) -> None:
    timings = read_solver_timings(label_data)
    assert timings is not None
    held_out = timings.take(np.flatnonzero(timings.queries.held_out))
    loaded = Checkpoint.load(label_checkpoint)
    chosen = choose(loaded.translator, held_out)
    (row,) = solver_choice_rows(held_out, chosen)
    assert row.top1 > 0.9
    assert row.share > 0.95 > row.default_share
    stranger = held_out.named(("miopen.Unheard",))
    assert (choose(loaded.translator, stranger) == chosen).all()


def test_values_without_a_choice_are_not_counted_after_the_true_prefix(label_parts: Parts) -> None:
    for labels in label_parts[1].values():
        allowed = allowed_values(labels)
        spaces = [SearchSpace(labels.kernel, problem, device) for problem, device in labels.queries.pairs()]
        for row, space in enumerate(spaces[:20]):
            inside = space.rows
            for column, index in enumerate(labels.value_indices[row].tolist()):
                assert allowed[row, column] == len(np.unique(inside[:, column]))
                inside = inside[inside[:, column] == index]
        free = allowed != 1
        some = LabelPredictions(np.full((len(labels), 1, free.shape[1]), -1, np.int16), ~free)
        assert Score.of(labels, some).teacher_forced == (0.0 if free.any() else None)
        assert Score.of(labels, replace(some, correct=free), allowed).teacher_forced == (1.0 if free.any() else None)


def test_a_label_outside_of_its_space_counts_as_wrong(label_parts: Parts) -> None:
    labels = label_parts[1][MLIR].take(np.arange(1))
    outside = replace(labels, value_indices=np.full_like(labels.value_indices, -1))
    assert (allowed_values(outside) == 0).all()
    wrong = LabelPredictions(np.full((1, 1, outside.value_indices.shape[1]), -1, np.int16),
                             np.zeros(outside.value_indices.shape, np.bool_))
    assert Score.of(outside, wrong).teacher_forced == 0.0
