"""The locked test set: its tables."""

from __future__ import annotations

from benchmarks.common.evaluation import COUNTS
from benchmarks.data.locked_problems import locked_problems
from benchmarks.prediction.locked import METHODS, page, rows_of
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.kinds import KINDS
from seqtune.predictor.learning.tasks.shares import Outcome


def toy_outcome(problem: Problem, share: float) -> Outcome:
    return Outcome(problem.key, "toy", {(method, count): share for method in METHODS for count in COUNTS}, 0, -0.01)


def test_the_locked_set_is_shown_by_kind_and_every_look_is_listed() -> None:
    rows = rows_of(toy_outcome(problem, -0.05) for problem in locked_problems())
    looked = [{"date": "2026-01-01", "device": "toy", "seqtune": "1", "checkpoint": "default"}]
    shown = page({"machine": {"cpu": "T", "cores": "2", "toolchain": "t", "date": "2026-01-01"}, "rows": rows,
                  "device": "toy", "version": 1, "trials": 200, "every": 3, "looked": [*looked, *looked]})
    assert shown.command == "python -m benchmarks locked --device toy --trials 200 --problems 3 --out docs"
    assert "first proposal reaches 0.951 [0.951, 0.951]" in shown.claim
    assert "of the transformer alone reaches 0.951 [0.951, 0.951] and that of the trees alone reaches" in shown.claim
    assert all(f"| {kind} | " in shown.tables for kind in (*KINDS, "NHWC", "batch", "epilogue"))
    assert shown.caveats[-1].count("2026-01-01 (toy, seqtune 1, checkpoint default)") == 2
