"""Seeded problems of each kind."""

from __future__ import annotations

from itertools import combinations

import pytest

from benchmarks.data.seeded_problems import seeded_problems
from seqtune.errors import ProblemError
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.kinds import KINDS, kind_of
from seqtune.kernels.problem_sets.similarity import near


@pytest.mark.parametrize("kind", KINDS)
def test_seeded_problems_are_of_their_kind_and_the_same_in_each_call(kind: str) -> None:
    drawn = seeded_problems(kind, 5, seed=3)
    assert drawn == seeded_problems(kind, 5, seed=3) != seeded_problems(kind, 5, seed=4)
    assert {kind_of(problem) for problem in drawn} == {kind}
    assert not any(near(problem, other) for problem, other in combinations(drawn, 2))


def test_a_kind_without_enough_problems_is_refused() -> None:
    everything = [Problem.make("gemm", m=1, n=None, k=None, trans_b=word) for word in ("no", "yes")]
    with pytest.raises(ProblemError, match="found only 0 of 2 problems of the kind gemm m=1"):
        seeded_problems("gemm m=1", 2, seed=0, avoid=everything)
