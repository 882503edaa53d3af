"""A predictor for GPUs that states a confidence: the analytic model, which has none of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from seqtune.kernels.task import Task
from seqtune.predictor.analytic import AnalyticPredictor
from seqtune.predictor.candidate import Candidate, Confidence


def expect(share: float | Callable[[Task], float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the analytic model's proposals, all or those of a task, be expected to reach this share of the best speed."""
    plain = AnalyticPredictor.propose

    def propose(self: AnalyticPredictor, tasks: Sequence[Task], count: int, evidence: Any = None
                ) -> list[list[Candidate]]:
        shares = [share(task) if callable(share) else share for task in tasks]
        return [[replace(candidate, confidence=Confidence(each, each / 2, 1.0)) for candidate in candidates]
                for each, candidates in zip(shares, plain(self, tasks, count, evidence), strict=True)]

    monkeypatch.setattr(AnalyticPredictor, "propose", propose)
