"""The program that times predictions."""

from __future__ import annotations

import json

from benchmarks.speed.latency import GPUS, MIOPEN, WARM_UP, convolutions_of_miopen, page, sampled, warm
from tests.support.paths import ROOT


def test_sampled_problems_are_of_both_operations_and_some_are_not_counted() -> None:
    problems = sampled(5)
    assert len(problems) == WARM_UP + 5
    assert [problem.type for problem in problems[WARM_UP:]] == ["conv2d"] * 4 + ["gemm"]


def test_gpus_and_parameters_of_miopen_are_rows_that_the_claim_leaves_out() -> None:
    ours = {"device": "llvm:0", "new": {"problems": 1, "median_ms": 7.0, "p90_ms": 8.0},
            "again": {"problems": 1, "median_ms": 5.0, "p90_ms": 6.0}}
    row = warm(*MIOPEN, convolutions_of_miopen(1))
    assert row["new"]["problems"] == 1
    results = json.loads((ROOT / "docs" / "results" / "latency.json").read_text())
    gpu = {**ours, "device": GPUS[0], "new": {"problems": 1, "median_ms": 20.0, "p90_ms": 30.0}}
    shown = page({**results, "beam": 5, "warm": [ours, gpu, row], "first_problem_ms": {GPUS[0]: 81.4}})
    assert "takes 7 to 7 ms" in shown.claim
    assert f"| {MIOPEN[1]} | 1 |" in shown.tables
    assert f"| {GPUS[0]} | 1 | 20.0 |" in shown.tables
    assert f"| {GPUS[0]} | 81 |" in shown.tables
