"""Answers with a confidence: what `predict` returns, and when it falls back to the safe default."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import seqtune
from seqtune.cli.tables import predicting as tables
from seqtune.errors import MisuseError
from seqtune.predictor import answering
from seqtune.predictor.candidate import Candidate, Confidence
from seqtune.predictor.model import cached_model
from seqtune.predictor.times.model import TimesModel
from tests.support import untrained

GEMM = "gemm m=8 n=16 k=8"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint without confidence, as older ones are."""
    return untrained.save(tmp_path_factory.mktemp("plain") / "checkpoint")


@pytest.fixture
def sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every checkpoint expects 0.9, 0.8, ... of the best speed."""
    propose = TimesModel.propose

    def confident(self: TimesModel, tasks: object, count: int, *more: object) -> list[list[Candidate]]:
        return [[replace(candidate, confidence=Confidence(0.9 - rank / 10, 0.5, 1.0))
                 for rank, candidate in enumerate(candidates)]
                for candidates in propose(self, tasks, count, *more)]  # type: ignore[arg-type]

    monkeypatch.setattr(TimesModel, "propose", confident)


@pytest.mark.usefixtures("sure")
def test_an_answer_has_the_confidence_of_its_first_candidate(checkpoint: Path,
                                                             capsys: pytest.CaptureFixture[str]) -> None:
    answer = seqtune.predict(GEMM, top=2, checkpoint=checkpoint)
    assert answer.confidence == Confidence(0.9, 0.5, 1.0)
    assert answer.candidates[1].confidence == Confidence(0.8, 0.5, 1.0)
    fields = answer.to_json()
    assert fields["confidence"] == {"share": 0.9, "low": 0.5, "high": 1.0}
    tables.prediction(answer)
    shown = capsys.readouterr().out
    assert "expected to reach 90 % of the best speed (80 %: 50 to 100)" in shown
    assert "0.50 to 1.00" in shown


@pytest.mark.usefixtures("sure")
def test_the_safe_default_answers_below_the_wanted_confidence(checkpoint: Path) -> None:
    enough = seqtune.predict(GEMM, checkpoint=checkpoint, min_confidence=0.9)
    assert not enough.fell_back
    assert enough.winner == enough.candidates[0]
    unsure = seqtune.predict(GEMM, checkpoint=checkpoint, min_confidence=0.95)
    assert unsure.fell_back
    assert unsure.winner == unsure.default
    assert "less than 95 %, so the safe default answers" in unsure.note
    assert unsure.to_json()["fell_back"] is True
    not_measured = seqtune.predict(GEMM, checkpoint=checkpoint, min_confidence=0.9, verify=True)
    assert not not_measured.verified
    assert "expected to reach 90 %" in not_measured.unverified


def test_a_predictor_without_confidence_falls_back(checkpoint: Path) -> None:
    answer = seqtune.predict(GEMM, checkpoint=checkpoint, min_confidence=0.1)
    assert answer.confidence is None
    assert answer.fell_back
    assert "does not estimate its confidence" in answer.note
    assert "confidence" not in answer.to_json()


@pytest.mark.parametrize("share", [0, -0.5, 1.5, float("nan"), "0.9", True])
def test_a_wanted_confidence_is_a_share(share: object, checkpoint: Path) -> None:
    with pytest.raises(MisuseError, match="min_confidence="):
        seqtune.predict(GEMM, checkpoint=checkpoint, min_confidence=share)  # type: ignore[arg-type]


def test_an_operation_that_the_shipped_checkpoint_was_not_trained_on_gets_a_safe_default(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = untrained.save(tmp_path / "checkpoint", None, "llvm.gemm")
    monkeypatch.setattr(answering, "cached_model", lambda name: cached_model(shipped))
    answer = seqtune.predict("attention heads=2 q_len=20 head_dim=16", top=3)
    assert answer.predictor == "safe-default"
    assert answer.winner.configuration == answer.default.configuration
    assert answer.confidence is None
    assert "its share of the best speed is unknown" in answer.note
    assert len(answer.candidates) == 3
    assert seqtune.predict(GEMM).predictor == "default"
