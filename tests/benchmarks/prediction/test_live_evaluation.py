"""The live evaluation: a problem is searched, compared and kept; the next call finds its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.common.finished import Finished
from benchmarks.prediction.live_evaluation import live_outcomes
from seqtune.data.journal.journal import Journal
from seqtune.kernels.problem import Problem
from seqtune.predictor.learning.tasks.baselines import Default
from seqtune.predictor.learning.tasks.shares import OURS
from seqtune.predictor.predictors import Predictor
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.measuring.deadline import Deadline

PROBLEM = Problem.make("gemm", m=8, n=16, k=8)
UNSOLVED = Problem.make("scaled_gemm", m=1, n=128, k=128)  # no kernel of a CPU solves it


@pytest.mark.slow
def test_an_outcome_is_kept_and_a_problem_without_kernels_is_left_out(tmp_path: Path) -> None:
    asked: list[str] = []

    def proposers() -> Mapping[str, Predictor]:
        asked.append("fitted")
        return {OURS: Default()}

    with Journal(tmp_path / "journal.sqlite") as journal:
        def evaluated(depends_on: str, finished: Finished) -> list[str]:
            return [outcome.problem for outcome in live_outcomes(
                proposers, [OURS], find("llvm:0"), [UNSOLVED, PROBLEM], depends_on, finished, journal, 2)]

        for _ in range(2):
            assert evaluated("one", Finished(tmp_path / "work")) == [PROBLEM.key]
        late = Finished(tmp_path / "work", Deadline(0.0))
        assert (evaluated("one", late), evaluated("other", late), late.left) == ([PROBLEM.key], [], 3)
    assert len(asked) == 3  # twice for what has no kernel, once for what is kept
