"""Answers that state a confidence, whoever answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.task import Task
from seqtune.predictor.answering import Answering
from seqtune.predictor.candidate import Candidate, Confidence


def expect(share: float | Callable[[Task], float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let proposals, all or those of a task, be expected to reach this share of the best speed."""
    plain = Answering.propose

    def propose(self: Answering, count: int, evidence: Any = None) -> dict[Configuration, Candidate]:
        each = share(self.task) if callable(share) else share
        return {configuration: replace(candidate, confidence=Confidence(each, each / 2, 1.0))
                for configuration, candidate in plain(self, count, evidence).items()}

    monkeypatch.setattr(Answering, "propose", propose)
