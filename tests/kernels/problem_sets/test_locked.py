"""The locked test set, the training problems and seeded problems of each kind."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from seqtune.errors import ProblemError
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.collected import problems
from seqtune.kernels.problem_sets.further import FURTHER, further_training
from seqtune.kernels.problem_sets.kinds import KINDS, kind_of, traits_of
from seqtune.kernels.problem_sets.locked import LEAST, locked_problems
from seqtune.kernels.problem_sets.seeded import seeded_problems
from seqtune.kernels.problem_sets.similarity import SimilarityIndex, near


def test_the_locked_set_has_every_kind_and_trait() -> None:
    locked = locked_problems()
    counts = Counter(map(kind_of, locked))
    assert len(set(locked)) == len(locked) >= 120
    assert set(counts) == set(KINDS)
    assert min(counts.values()) >= LEAST
    traits = Counter(trait for problem in locked for trait in traits_of(problem))
    assert all(traits[name] >= LEAST for name in ("NHWC", "epilogue", "batch"))


def test_no_problem_of_one_set_is_near_one_of_another() -> None:
    split = problems()
    sets = {"training": (*split.training, *further_training()), "held out": split.held_out,
            "locked": locked_problems()}
    for (name, chosen), (other, others) in combinations(sets.items(), 2):
        index = SimilarityIndex(others)
        close = [problem.brief() for problem in chosen if index.has_near(problem)]
        assert not close, (name, other)


def test_the_shipped_problems_are_still_those() -> None:
    split = problems()
    assert (len(split.training), len(split.held_out)) == (324, 63)
    assert len(further_training()) >= sum(FURTHER.values())


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


def test_an_index_finds_what_near_finds() -> None:
    training = problems().training[:120]
    index = SimilarityIndex(training[:60])
    for problem in training[60:]:
        assert index.has_near(problem) == any(near(problem, other) for other in training[:60])
