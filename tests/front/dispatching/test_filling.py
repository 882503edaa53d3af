"""Filling: a fifth of the cells decides."""

from __future__ import annotations

import math

import numpy as np

from seqtune.api.dispatching.filling import decisive
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.predictor.dispatch.matrix import Matrix, most_helpful


def matrix(seconds: np.ndarray, expected: np.ndarray) -> Matrix:
    shapes, candidates = seconds.shape
    return Matrix(tuple(Problem.make("gemm", m=m + 1, n=8, k=8) for m in range(shapes)),
                  tuple(Configuration.of("test.k", {"x": x}) for x in range(candidates)), seconds, expected,
                  np.full(shapes, 1 / shapes))


def test_sets_from_a_fifth_of_planted_cells_lose_little_to_those_of_the_whole_matrix() -> None:
    losses = []
    for seed in range(5):
        generator = np.random.default_rng(seed)
        where, kind = generator.random((40, 2)), generator.random((60, 2))
        distance = ((where[:, None] - kind[None]) ** 2).sum(axis=2)
        truth = 0.8 * distance + generator.exponential(0.1, 60) + generator.normal(0, 0.02, (40, 60))
        truth -= truth.min(axis=1, keepdims=True)
        expected = truth + generator.normal(0, 0.05, truth.shape) + generator.normal(0, 0.05, 60)
        seconds = np.full(truth.shape, math.nan)
        for done in range(8):
            known = matrix(seconds, expected)
            for cell in decisive(known.corrected(), 8, (480 - int(np.isfinite(seconds).sum())) // (8 - done)):
                seconds[cell] = math.exp(truth[cell])
        assert np.isfinite(seconds).sum() <= 480
        weights = np.full(40, 1 / 40)
        best = truth[:, most_helpful(truth, weights, 8)].min(axis=1).mean()
        chosen = most_helpful(matrix(seconds, expected).corrected().slowness(), weights, 8)
        losses.append(truth[:, chosen].min(axis=1).mean() - best)
    assert np.mean(losses) < 0.005
    assert max(losses) < 0.02
