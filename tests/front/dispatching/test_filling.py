"""Tests of filling: which cells of a matrix are measured, and what measured cells say about others."""

from __future__ import annotations

import math

import numpy as np
import pytest

from seqtune.api.dispatching.filling import decisive
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.predictor.dispatch.matrix import Matrix, most_helpful

UNKNOWN = math.nan


def matrix(seconds: np.ndarray, expected: np.ndarray) -> Matrix:
    shapes, candidates = seconds.shape
    return Matrix(tuple(Problem.make("gemm", m=m + 1, n=8, k=8) for m in range(shapes)),
                  tuple(Configuration.of("test.k", {"x": x}) for x in range(candidates)), seconds, expected,
                  np.full(shapes, 1 / shapes))


def test_near_ties_of_members_come_first_and_what_is_known_is_not_wanted() -> None:
    expected = np.array([[0.0, 0.02, 0.5, 0.9], [0.4, 0.0, 0.9, 0.01]])
    seconds = np.full(expected.shape, UNKNOWN)
    seconds[0, 0] = 1.0
    wanted = decisive(matrix(seconds, expected), 1, 6)
    assert (0, 0) not in wanted
    assert wanted[:3] == [(0, 1), (1, 1), (1, 3)]
    assert len(wanted) == len(set(wanted)) == 6
    assert decisive(matrix(seconds, expected), 1, 0) == []


def test_an_expected_cell_may_be_hoped_to_be_faster_than_what_is_measured() -> None:
    slowness = matrix(np.array([[1.0, UNKNOWN]]), np.array([[0.3, 0.0]])).slowness(optimistic=True)
    assert slowness[0] == pytest.approx([0.3, 0.0])


def test_a_candidate_whose_measured_cells_are_slower_than_expected_is_expected_to_be_slower_elsewhere() -> None:
    expected = np.zeros((6, 2))
    seconds = np.full(expected.shape, UNKNOWN)
    seconds[:5, 0], seconds[:5, 1] = 1.0, math.exp(0.3)
    after = matrix(seconds, expected).corrected().expected
    assert 0.2 < after[5, 1] - after[5, 0] < 0.3


def test_sets_from_a_fifth_of_planted_cells_lose_little_to_those_of_the_whole_matrix() -> None:
    losses = []
    for seed in range(5):
        generator = np.random.default_rng(seed)
        where, kind = generator.random((40, 2)), generator.random((60, 2))
        distance = ((where[:, None] - kind[None]) ** 2).sum(axis=2)
        truth = 0.8 * distance + generator.exponential(0.1, 60) + generator.normal(0, 0.02, (40, 60))
        truth -= truth.min(axis=1, keepdims=True)
        expected = truth + generator.normal(0, 0.05, truth.shape) + generator.normal(0, 0.05, 60)
        seconds = np.full(truth.shape, UNKNOWN)
        for turn in range(8):
            known = matrix(seconds, expected)
            for cell in decisive(known.corrected(), 8, (480 - int(np.isfinite(seconds).sum())) // (8 - turn)):
                seconds[cell] = math.exp(truth[cell])
        assert np.isfinite(seconds).sum() <= 480
        weights = np.full(40, 1 / 40)
        best = truth[:, most_helpful(truth, weights, 8)].min(axis=1).mean()
        chosen = most_helpful(matrix(seconds, expected).corrected().slowness(), weights, 8)
        losses.append(truth[:, chosen].min(axis=1).mean() - best)
    assert np.mean(losses) < 0.005
    assert max(losses) < 0.02
