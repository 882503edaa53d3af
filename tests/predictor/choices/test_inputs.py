"""Tree features: what boosted trees see of their queries."""

from __future__ import annotations

from typing import Any

from seqtune.data.queries import DistinctProblems, Queries
from seqtune.kernels.miopen.gpus import device
from seqtune.kernels.problem import Problem
from seqtune.predictor.choices.inputs import TREE_FEATURES, tree_columns

MI50, VEGA = device("gfx906_60"), device("gfx900_56")


def test_what_a_perf_db_leaves_open_changes_neither_side_nor_features() -> None:
    known: dict[str, Any] = {"n": 4, "c": 64, "k": 96, "r": 3, "s": 3, "pad_h": 1, "pad_w": 1, "stride_h": 2,
                             "stride_w": 2, "direction": "backward_data"}
    problems = [Problem.make("convnd", **known, h=55, w=55), Problem.make("convnd", **known, h=56, w=56),
                Problem.make("convnd", **known, h=None, w=None, out_h=28, out_w=28),
                Problem.make("conv2d", **known, h=56, w=56)]
    assert len(set(DistinctProblems.of(problems).hashes.tolist())) == 1
    columns = tree_columns(Queries.of([(problem, MI50) for problem in problems]))
    assert columns.shape == (4, TREE_FEATURES)
    assert (columns == columns[0]).all()


def test_sizes_that_differ_in_divisibility_alone_look_different() -> None:
    problems = [Problem.make("convnd", n=8, c=c, h=28, w=28, k=64, r=1, s=1) for c in (256, 257)]
    first, second = tree_columns(Queries.of([(problem, MI50) for problem in problems]))
    assert (first != second).sum() > 8
    near = tree_columns(Queries.of([(problems[0], MI50), (problems[0], VEGA)]))
    assert (near[0] != near[1]).any()
