"""Scores of proposed labels and of chosen solvers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seqtune.data.formats.miopen_import import read_files
from seqtune.data.labels import SolverTimings, read_labels
from seqtune.data.queries import Queries
from seqtune.kernels.miopen.gpus import device
from seqtune.kernels.problem import Problem
from seqtune.predictor.learning.choices.predictors import LabelPredictions, valid
from seqtune.predictor.learning.choices.scores import Score, first_best, solver_choice_rows
from tests.support.planted_labels import perf_files

MI50 = device("gfx906_60")


def test_the_share_of_a_choice_is_what_its_times_say() -> None:
    queries = Queries.of([(Problem.make("convnd", n=n, c=8, h=8, w=8, k=8, r=1, s=1), MI50) for n in (1, 2, 3)])
    timings = SolverTimings(("a", "b"), queries, np.array([0, 2, 4, 5]), np.array([0, 1, 0, 1, 1]),
                  np.array([1.0, 2.0, 1.0, 4.0, 3.0]))
    assert first_best(timings, -timings.seconds).tolist() == [0, 2, 4]
    (row,) = solver_choice_rows(timings, np.array([1, 2, 4]))
    assert row.n == 3
    assert row.top1 == pytest.approx(2 / 3)
    assert row.share == pytest.approx(0.5 ** (1 / 3))
    assert row.default_share == pytest.approx(1.0)  # `a` wins most often, and where it isn't, `b` is alone
    assert row.to_json().keys() == {"device", "n", "top1", "share", "default_share"}


def test_what_lies_outside_of_its_space_is_counted(tmp_path: Path) -> None:
    some = read_labels(read_files(perf_files(tmp_path))[0])["miopen.ConvMlirIgemmFwd"]
    assert valid(some.kernel, some.queries, some.value_indices).all()
    wrong = some.value_indices.copy()
    wrong[:3] = [0, 2, 2, 0, 1, 1]
    wrong[3] = [2, 0, 0, 0, 0, 0]  # 256 threads cannot split so small tiles
    proposed = np.stack([wrong, np.full_like(wrong, -1)], axis=1)
    score = Score.of(some, LabelPredictions(proposed, None))
    assert score.invalid == 1
    assert score.teacher_forced is None
    assert score.exact == pytest.approx(1 - 4 / len(some), abs=4 / len(some))
