"""A predictor for GPUs that states a confidence: the analytic model, which has none of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from seqtune.kernels.task import Task
from seqtune.predictor.analytic import AnalyticPredictor
from seqtune.predictor.candidate import Candidate, Confidence


def expect(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all proposals of the analytic model be expected to reach this share of the best speed."""
    plain = AnalyticPredictor.propose

    def propose(self: AnalyticPredictor, tasks: Sequence[Task], count: int, evidence: Any = None
                ) -> list[list[Candidate]]:
        return [[replace(candidate, confidence=Confidence(share, share / 2, 1.0)) for candidate in candidates]
                for candidates in plain(self, tasks, count, evidence)]

    monkeypatch.setattr(AnalyticPredictor, "propose", propose)
