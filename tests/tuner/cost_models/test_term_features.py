"""The analytic model's terms as features of the learned cost models."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.cost_models.analytic import Terms, term_columns, terms_of
from seqtune.tuner.cost_models.features import UNKNOWN, features, own_features
from tests.support.devices import described_gpu

A100 = described_gpu("cuda", "a100")
PROBLEM = Problem.make("gemm", m=64, n=64, k=64)
TERMS = len(fields(Terms))


def test_the_terms_are_the_last_features_that_do_not_depend_on_the_device_of_a_kernel_that_describes_its_tiles(
        ) -> None:
    space, rows = SearchSpace(kernel("cuda.gemm"), PROBLEM, A100), np.array([5, 0, 7])
    known, table = terms_of(space.at(rows)), own_features(space, space.columns())[rows]
    assert np.array_equal(features(space, rows)[:, :table.shape[1]], table)
    assert (table[:, -1] == known.hit_share.astype(np.float32)).all()
    peak = 2 * 64**3 / space.device.peak_gflops / 1e9
    assert np.allclose(table[:, -TERMS], known.seconds / peak)
    assert len(term_columns(space)) == TERMS


def test_without_the_facts_of_a_gpu_the_terms_are_unknown() -> None:
    space = SearchSpace(kernel("cuda.gemm"), PROBLEM, A100)
    bare = space.of_rows(space.kernel, PROBLEM, replace(space.device, extra=()), space.rows)
    assert np.isnan(np.stack(term_columns(bare))).all()
    known, unknown = features(space), features(bare)
    columns = np.flatnonzero((unknown == UNKNOWN).all(axis=0) & (known != UNKNOWN).any(axis=0))
    assert len(columns) == TERMS
    assert np.isfinite(known).all()
    assert np.isfinite(unknown).all()
