"""Scores of proposed labels and of chosen solvers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from seqtune.data.dataset import Dataset
from seqtune.integrations.miopen.kernels.gpus import device
from seqtune.integrations.miopen.predictor.labels import Queries, SolverTimings, read_solver_timings
from seqtune.integrations.miopen.predictor.learning import choose, score_solvers
from seqtune.kernels.problem import Problem
from seqtune.predictor.checkpoint import Checkpoint

MI50 = device("gfx906_60")


def test_the_share_of_a_choice_is_what_its_times_say() -> None:
    queries = Queries.of([(Problem.make("convnd", n=n, c=8, h=8, w=8, k=8, r=1, s=1), MI50) for n in (1, 2, 3)])
    timings = SolverTimings(**vars(queries), names=("a", "b"),
                            seconds=np.array([[1.0, 2.0], [1.0, 4.0], [np.inf, 3.0]], np.float32))
    (row,) = score_solvers(timings, lambda part: np.array([1, 0, 1]))
    assert row.n == 3
    assert row.top1 == pytest.approx(2 / 3)
    assert row.share == pytest.approx(0.5 ** (1 / 3))
    assert row.default_share == pytest.approx(1.0)  # `a` wins most often, and where it isn't, `b` is alone
    assert row.to_json().keys() == {"device", "n", "top1", "share", "default_share"}


def test_the_choice_of_solvers_learns_which_is_fastest(label_checkpoint: Path, label_data: Dataset) -> None:
    timings = read_solver_timings(label_data)
    held_out, loaded = timings.take(timings.held_out), Checkpoint.load(label_checkpoint)
    (row,) = score_solvers(held_out, partial(choose, loaded.translator))
    assert row.top1 > 0.9
    assert row.share > 0.95 > row.default_share
    stranger = replace(held_out, names=("miopen.Unheard", *held_out.names), seconds=np.column_stack(
        [np.ones(len(held_out), np.float32), held_out.seconds]))
    assert (choose(loaded.translator, stranger) == choose(loaded.translator, held_out) + 1).all()
