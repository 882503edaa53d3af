"""The table of features that trees and Gaussian processes share."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.cost_models import features as module
from seqtune.tuner.cost_models.features import MOST_KEPT, FeatureList, feature_table, features
from tests.support.devices import described_gpu


def test_the_latest_table_of_a_space_is_kept_and_equals_the_features(monkeypatch: pytest.MonkeyPatch) -> None:
    space = SearchSpace(kernel("triton.gemm"), Problem.make("gemm", m=64, n=64, k=64, dtype="fp16"),
                        described_gpu("triton", "a100"))
    rows = np.array([5, 0, 7])
    table = feature_table(space, rows)
    assert np.array_equal(table, features(space, rows))
    assert not table.flags.writeable
    assert feature_table(space, rows.copy()) is table
    cases: list[tuple[Numbers, FeatureList]] = [(rows[::-1], "ratios"), (rows, "facts")]
    for other, listed in cases:
        assert np.array_equal(feature_table(space, other, listed), features(space, other, listed))
    monkeypatch.setattr(module, "MOST_KEPT", 2)
    assert MOST_KEPT > 2
    many = feature_table(space, rows)
    assert feature_table(space, rows) is not many, "a table of more rows is not kept"
