"""The program that checks what is proposed for GPUs: it counts what is valid, and finds what is not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.prediction import gpu_proposals
from seqtune.kernels.kernel import Configuration
from seqtune.predictor.answering import Answering
from seqtune.predictor.candidate import Candidate
from tests.support.learning.shipped_gpu import NAME, ship_random

FEW = ["--problems", "16", "--top", "2", "--compiled", "0", "--gpus", "h100,mi300x"]


def run(folder: Path, *arguments: str) -> Any:
    gpu_proposals.main([*arguments, "--out", str(folder)])
    return json.loads((folder / "results" / "gpu_proposals.json").read_text())


def test_problems_are_of_every_operation_in_turn_and_follow_the_seed() -> None:
    problems = gpu_proposals.problems(24, 0)
    assert {problem.type for problem in problems[:8]} == {*gpu_proposals.TURNS}
    assert problems == gpu_proposals.problems(24, 0) != gpu_proposals.problems(24, 1)


def test_no_proposal_of_a_checkpoint_or_of_the_analytic_model_is_invalid(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ship_random(tmp_path, monkeypatch)
    results = run(tmp_path, *FEW)
    assert {row["predictor"] for row in results["rows"]} == {NAME, "analytic"}
    assert {row["device"] for row in results["rows"]} == {"cuda:h100", "triton:h100", "triton:mi300x"}
    assert sum(row["proposals"] for row in results["rows"]) > 2 * 16
    assert [row["invalid"] for row in results["rows"]] == [0] * len(results["rows"])
    assert "\n0 of " in (tmp_path / "results" / "gpu_proposals.md").read_text()


def test_an_invalid_proposal_is_counted_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def propose(answered: Sequence[Answering], count: int, evidence: bool) -> list[list[Candidate]]:
        return [[Candidate(enlarged(asking.task.default))] for asking in answered]

    def enlarged(configuration: Configuration) -> Configuration:
        return replace(configuration, settings=tuple((name, 0 if name == "num_stages" else value)
                                                     for name, value in configuration.settings))

    monkeypatch.setattr("seqtune.predictor.answering.propose_many", propose)
    rows = run(tmp_path, "--problems", "8", "--compiled", "0", "--gpus", "mi300x")["rows"]
    assert sum(row["invalid"] for row in rows) == sum(row["proposals"] for row in rows) > 0
    assert "num_stages has another value than the family knows" in rows[0]["reasons"]


@pytest.mark.slow
def test_first_proposals_compile_to_what_is_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="Triton is not installed (Linux only): make develop")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    results = run(tmp_path, "--problems", "12", "--compiled", "2", "--gpus", "mi300x")
    (row,) = results["compiled"]
    assert (row["kernel"], row["compiled"], row["failures"], row["contradictions"]) == ("triton.gemm", 2, [], [])
