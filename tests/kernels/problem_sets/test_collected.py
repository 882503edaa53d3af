"""The problems that the shipped data measure, and the order in which a collection measures them."""

from __future__ import annotations

from collections import Counter

from seqtune.kernels.problem_sets.collected import further_training, problems
from seqtune.kernels.problem_sets.kinds import KINDS, kind_of, spread_over_kinds
from seqtune.kernels.problem_sets.similarity import SimilarityIndex, near


def test_the_shipped_problems_are_still_those() -> None:
    split = problems()
    assert (len(split.training), len(split.held_out), len(set(further_training()))) == (324, 63, 118)
    assert set(map(kind_of, further_training())) == set(KINDS)


def test_an_index_finds_what_near_finds() -> None:
    training = problems().training[:120]
    index = SimilarityIndex(training[:60])
    for problem in training[60:]:
        assert index.has_near(problem) == any(near(problem, other) for other in training[:60])


def test_every_beginning_of_the_spread_problems_has_all_kinds_and_the_seed_chooses_which() -> None:
    known = (*problems().training, *further_training())
    spread = spread_over_kinds(known, seed=0)
    assert set(spread) == set(known)
    assert len(spread) == len(set(known))
    assert Counter(map(kind_of, spread[:3 * len(KINDS)])) == dict.fromkeys(KINDS, 3)
    assert spread_over_kinds(reversed(known), seed=0) == spread
    assert spread_over_kinds(known, seed=1)[:len(KINDS)] != spread[:len(KINDS)]
