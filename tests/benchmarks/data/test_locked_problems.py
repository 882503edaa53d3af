"""The locked test set and the training problems: of every kind, and none near one of another set."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from benchmarks.data.locked_problems import LEAST, locked_problems, traits_of
from seqtune.kernels.problem_sets.collected import further_training, problems
from seqtune.kernels.problem_sets.kinds import KINDS, kind_of
from seqtune.kernels.problem_sets.similarity import SimilarityIndex


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
