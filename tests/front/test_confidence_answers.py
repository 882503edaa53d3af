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
from seqtune.predictor.model import cached_model
from tests.support import untrained

GEMM = "gemm m=8 n=16 k=8"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint without confidence, as older ones are."""
    return untrained.save(tmp_path_factory.mktemp("plain") / "checkpoint")


@pytest.fixture(scope="module")
def sure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped checkpoint with an estimator that expects 0.9 of the best speed, and 0.8 of the second proposal."""
    factors = tuple(np.linspace(0, 2, LEVELS).tolist())

    def regret(share: float) -> RegretModel:
        return RegretModel(constant=-math.log(share), weights=(0.0,) * 3, known=factors, new=factors)

    estimator = ConfidenceModel(first=regret(0.9), other=regret(0.8), devices=())
    return replace(Checkpoint.load("default"), estimator=estimator).save(
        tmp_path_factory.mktemp("sure") / "checkpoint")


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


def test_the_safe_default_answers_below_the_wanted_confidence(sure: Path) -> None:
    enough = seqtune.predict(GEMM, checkpoint=sure, min_confidence=0.89)
    assert not enough.fell_back
    assert enough.winner == enough.candidates[0]
    unsure = seqtune.predict(GEMM, checkpoint=sure, min_confidence=0.95)
    assert unsure.fell_back
    assert unsure.winner == unsure.default
    assert "less than 95 %, so the safe default answers" in unsure.note
    assert unsure.to_json()["fell_back"] is True
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
    assert not cached_model("default").knows([kernel("llvm.gemm_int8")]), "choose another kernel for this test"
    answer = seqtune.predict(f"{GEMM} dtype=int8", top=3)
    assert answer.predictor == "safe-default"
    assert answer.winner.configuration == answer.default.configuration
    assert answer.confidence is None
    assert "its share of the best speed is unknown" in answer.note
    assert len(answer.candidates) == 3
    assert seqtune.predict(GEMM).predictor == "default"
