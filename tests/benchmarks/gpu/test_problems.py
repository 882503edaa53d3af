"""The problems of a run on a GPU: held-out models are new, and several sets take turns."""

from __future__ import annotations

from benchmarks.gpu.problems import convolutions, products
from seqtune.kernels.problem_sets.similarity import near


def test_no_training_problem_is_near_a_held_out_one() -> None:
    for problems in (products("bf16", 250), convolutions("fp16", 100)):
        held_out = [problem for problem in problems.ordered if problem.key in problems.held_out]
        training = [problem for problem in problems.ordered if problem.key not in problems.held_out]
        assert len(held_out) > len(training) / 6
        assert not any(near(problem, other) for problem in training for other in held_out)
    assert 230 <= len(products("bf16", 250).ordered) <= 250
