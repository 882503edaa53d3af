"""Answers with a confidence: what `predict` returns, and when it falls back to the safe default."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import seqtune
from seqtune.cli.tables import predicting as tables
from seqtune.errors import MisuseError
from seqtune.kernels.registry import kernel
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.confidence.model import LEVELS, ConfidenceModel, RegretModel
from seqtune.predictor.predictors import cached_checkpoint
from tests.support import untrained

GEMM = "gemm m=8 n=16 k=8"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint without confidence, as older ones are."""
    return untrained.save(tmp_path_factory.mktemp("plain") / "checkpoint")


def expecting(first: float, other: float, folder: Path) -> Path:
    """The shipped checkpoint with an estimator that expects these shares of the first proposal and of all others."""
    factors = tuple(np.linspace(0, 2, LEVELS).tolist())

    def regret(share: float) -> RegretModel:
        return RegretModel(constant=-math.log(share), weights=(0.0,) * 3, known=factors, new=factors)

    estimator = ConfidenceModel(first=regret(first), other=regret(other), devices=())
    return replace(Checkpoint.load("default"), estimator=estimator).save(folder / "checkpoint")


@pytest.fixture(scope="module")
def sure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that expects 0.9 of the best speed, and 0.8 of all proposals but the first."""
    return expecting(0.9, 0.8, tmp_path_factory.mktemp("sure"))


def test_an_answer_has_the_confidence_of_its_first_candidate(sure: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = seqtune.predict(GEMM, top=2, checkpoint=sure)
    first, second = (candidate.confidence for candidate in answer.candidates)
    assert first is not None
    assert second is not None
    assert answer.confidence == first
    assert (first.share, second.share) == pytest.approx((0.9, 0.8), rel=0.01)
    assert answer.to_json()["confidence"] == {"share": first.share, "low": first.low, "high": first.high}
    tables.prediction(answer)
    shown = capsys.readouterr().out
    assert "expected to reach 90 % of the best speed (80 %: 83 to 98)" in shown
    assert "0.83 to 0.98" in shown


def test_the_better_of_first_proposal_and_safe_default_answers_below_the_wanted_confidence(
        sure: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    enough = seqtune.predict(GEMM, checkpoint=sure, min_confidence=0.89)
    assert not enough.fell_back
    assert enough.winner == enough.candidates[0]
    proposed = seqtune.predict(GEMM, checkpoint=sure, min_confidence=0.95)
    assert not proposed.fell_back
    assert proposed.winner == proposed.candidates[0]
    assert proposed.default.confidence is not None
    assert proposed.default.confidence.share == pytest.approx(0.8, rel=0.01)
    assert "less than 95 %, and the safe default is expected to reach 8" in proposed.note
    assert "so the first proposal answers" in proposed.note
    unsure = seqtune.predict(GEMM, checkpoint=expecting(0.6, 0.7, tmp_path), min_confidence=0.95)
    assert unsure.fell_back
    assert unsure.winner == unsure.default
    assert unsure.confidence == unsure.default.confidence, "it describes what answers"
    assert unsure.to_json()["fell_back"] is True
    assert "so the safe default answers" in unsure.note
    tables.prediction(unsure)
    assert "the safe default: expected to reach 7" in " ".join(capsys.readouterr().out.split())
    not_measured = seqtune.predict(GEMM, checkpoint=sure, min_confidence=0.89, verify=True)
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


def test_a_problem_whose_kernels_the_shipped_checkpoint_was_not_trained_on_gets_a_safe_default() -> None:
    assert not cached_checkpoint("default").knows([kernel("llvm.gemm_int8")]), "choose another kernel for this test"
    answer = seqtune.predict(f"{GEMM} dtype=int8", top=3)
    assert answer.predictor == "safe-default"
    assert answer.winner.configuration == answer.default.configuration
    assert answer.confidence is None
    assert "its share of the best speed is unknown" in answer.note
    assert len(answer.candidates) == 3
    assert seqtune.predict(GEMM).predictor == "default"
