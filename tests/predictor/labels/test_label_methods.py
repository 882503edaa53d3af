"""Methods that predict labels: beams over several sources of next words, rankers, greedy decoding, baselines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.common.greedy import Greedy
from seqtune.api import evaluate
from seqtune.data.dataset import Dataset
from seqtune.data.labels import read_solver_timings
from seqtune.data.queries import Queries
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.candidate import Candidate
from seqtune.predictor.labels.baselines.rankers import TreeRankerOptions
from seqtune.predictor.labels.baselines.table import BaselineOptions, fit_baselines
from seqtune.predictor.labels.checkpoint import LabelCheckpoint
from seqtune.predictor.labels.methods import Beam, LabelPredictions, ValueIndices, allowed_values
from seqtune.predictor.labels.scores import Score, judge, solver_choice_rows
from seqtune.predictor.labels.solver_choice import TreeChoice, choose
from seqtune.predictor.labels.training import vocabulary_of
from seqtune.predictor.sequence.beam import beam_search
from seqtune.predictor.sequence.mixture import Average
from tests.support.label_toys import MLIR, QUICK, TREES, Parts
from tests.support.planted_labels import perf_files
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


class Likes:
    """A ranker that prefers large values (sign 1) or small ones (sign -1)."""

    def __init__(self, sign: int) -> None:
        self.sign = sign

    def rank(self, kernel: Kernel, queries: Queries, indices: ValueIndices) -> Any:
        return np.float32(self.sign) * indices.sum(axis=2)


def test_a_ranker_reorders_the_proposals_of_a_beam(label_parts: Parts) -> None:
    words = Fixed(vocabulary_of(label_parts[0], None), lambda words: words * 0.0)
    labels = label_parts[1][MLIR]
    for sign in (-1, 1):
        proposed = Beam(words, ranker=Likes(sign), trust=100.0).predict(labels, 5).proposed
        assert (np.diff(proposed.sum(axis=2) * sign, axis=1) <= 0).all()


def test_greedy_batches_propose_what_look_ahead_proposes(label_checkpoint: Path, label_parts: Parts) -> None:
    loaded = LabelCheckpoint.load(label_checkpoint)
    for words in (loaded.next_word(), Fixed(loaded.vocabulary, lambda words: words * -1.0)):  # needs look-ahead
        for labels in label_parts[1].values():
            quick = Greedy(words).predict(labels, 1).proposed
            assert (quick == Beam(words, width=1).propose(labels, 1)).all()
            assert (quick >= 0).all()


def test_every_baseline_learns_the_rule_to_some_degree(label_parts: Parts) -> None:
    options = BaselineOptions(replace(QUICK, epochs=6), TREES, TreeRankerOptions(rounds=10, threads=1))
    methods = fit_baselines(label_parts[0], options=options)
    rows = judge(methods.pop("majority"), label_parts[1], methods)
    for name in ("nearest", "trees", "trees_beam", "tree_ranker"):  # the two networks need longer training
        better = [row.baselines[name].exact > row.score.exact for row in rows]
        assert sum(better) >= 2, name
    for name in ("trees", "trees_beam", "tree_ranker", "two_towers", "lstm"):
        assert all(row.baselines[name].invalid == 0 for row in rows)


def test_the_choice_of_solvers_learns_which_is_fastest(label_checkpoint: Path, label_data: Dataset) -> None:
    timings = read_solver_timings(label_data)
    assert timings is not None
    training, held_out = (timings.take(np.flatnonzero(side)) for side in (~timings.queries.held_out,
                                                                          timings.queries.held_out))
    loaded = LabelCheckpoint.load(label_checkpoint)
    chosen = choose(loaded.translator, held_out)
    (row,) = solver_choice_rows(held_out, chosen, TreeChoice(training, rounds=10, threads=1).choose(held_out))
    assert row.top1 > 0.9
    assert row.share > 0.95 > row.default_share
    assert row.trees_share is not None
    assert row.trees_share > 0.95
    stranger = held_out.named(("miopen.Unheard",))
    assert (choose(loaded.translator, stranger) == chosen).all()


def test_baselines_do_not_learn_from_what_is_judged(label_checkpoint: Path, tmp_path: Path) -> None:
    strangers = perf_files(tmp_path, seed=5)  # the checkpoint has seen next to none of these problems
    notes: list[str] = []
    rows = evaluate(strangers, form="miopen", checkpoint=label_checkpoint, baselines=True,
                    warn=notes.append).to_json()["rows"]
    assert rows
    assert not any(row.get("baselines") for row in rows)
    assert any("no baselines" in note for note in notes)


def test_values_without_a_choice_are_not_counted_after_the_true_prefix(label_parts: Parts) -> None:
    for labels in label_parts[1].values():
        allowed = allowed_values(labels)
        spaces = [SearchSpace(labels.kernel, problem, device) for problem, device in labels.queries.pairs()]
        for row, space in enumerate(spaces[:20]):
            inside = space.rows
            for column, index in enumerate(labels.places[row].tolist()):
                assert allowed[row, column] == len(np.unique(inside[:, column]))
                inside = inside[inside[:, column] == index]
        free = allowed != 1
        some = LabelPredictions(np.full((len(labels), 1, free.shape[1]), -1, np.int16), ~free)
        assert Score.of(labels, some).teacher_forced == (0.0 if free.any() else None)
        assert Score.of(labels, replace(some, correct=free), allowed).teacher_forced == (1.0 if free.any() else None)


def test_a_label_outside_of_its_space_counts_as_wrong(label_parts: Parts) -> None:
    labels = label_parts[1][MLIR].take(np.arange(1))
    outside = replace(labels, places=np.full_like(labels.places, -1))
    assert (allowed_values(outside) == 0).all()
    wrong = LabelPredictions(np.full((1, 1, outside.places.shape[1]), -1, np.int16),
                             np.zeros(outside.places.shape, np.bool_))
    assert Score.of(outside, wrong).teacher_forced == 0.0


def test_the_trees_that_choose_solvers_learn_from_all_timings_unless_told_how_many(label_data: Dataset) -> None:
    timings = read_solver_timings(label_data)
    assert timings is not None
    assert len(timings) > 40
    everything, few = (TreeChoice(timings, rounds=8, most=most, threads=1) for most in (None, 20))
    assert len(everything.fitted_to) == len(timings)
    assert len(few.fitted_to) == 20
