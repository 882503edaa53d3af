"""The problems of a run on a GPU: held-out models are new, and several sets take turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu.problems import convolutions, problems_of, products
from seqtune.errors import MisuseError
from seqtune.kernels.problem_sets.similarity import near


def test_no_training_problem_is_near_a_held_out_one() -> None:
    for problems in (products("bf16", 250), convolutions("fp16", 100)):
        held_out = [problem for problem in problems.ordered if problem.key in problems.held_out]
        training = [problem for problem in problems.ordered if problem.key not in problems.held_out]
        assert len(held_out) > len(training) / 6
        assert not any(near(problem, other) for problem in training for other in held_out)
    assert 230 <= len(products("bf16", 250).ordered) <= 250


def test_problems_of_several_names_take_turns(tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text("gemm m=1 n=2 k=3\ngemm m=2 n=2 k=3\n")
    found = problems_of(["gemm:fp16", str(tmp_path / "few.txt"), "conv2d:fp32"], 10)
    assert [problem.type for problem in found.ordered[:7]] == ["gemm", "gemm", "conv2d"] * 2 + ["gemm"]
    assert [problem["dtype"] for problem in found.ordered[:3]] == ["fp16", "fp32", "fp32"]
    assert len(problems_of(["resnet18"], 3).ordered) == 3
    with pytest.raises(MisuseError, match="names no element type"):
        problems_of(["gemm:half"], 10)
