"""Members: sets chosen in planted spaces."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Floats
from seqtune.predictor.dispatch.facts import Fact
from seqtune.predictor.dispatch.goal import Goal
from seqtune.predictor.dispatch.matrix import Matrix
from seqtune.predictor.dispatch.members import MemberSet, choose_members, generalises, knee
from seqtune.predictor.dispatch.rule import Whole

FACTS = (Fact("m", Expression("m")), Fact("n", Expression("n")))


def space(slowness: Callable[[Whole, Whole], Floats], shapes: int = 120,
          seed: int = 0) -> tuple[Matrix, Callable[[Sequence[int]], tuple[tuple[Fact, ...], Whole]]]:
    """A measured matrix of products with this slowness by m and n, and its facts."""
    generator = np.random.default_rng(seed)
    m, n = generator.integers(1, 1000, shapes), generator.integers(1, 1000, shapes)
    seconds = np.exp(slowness(m, n) + generator.normal(0, 0.01, (shapes, 1)))
    problems = tuple(Problem.make("gemm", m=a, n=b, k=64) for a, b in zip(m.tolist(), n.tolist(), strict=True))
    candidates = tuple(Configuration.of("planted", {"tile": tile}) for tile in range(seconds.shape[1]))
    matrix = Matrix(problems, candidates, seconds, np.full(seconds.shape, math.nan), np.full(shapes, 1 / shapes))
    return matrix, lambda members: (FACTS, np.stack([m, n], axis=1))


def columns(*parts: NDArray[np.floating[Any]] | float, shapes: int) -> Floats:
    return np.stack([np.broadcast_to(np.asarray(part, np.float64), shapes) for part in parts], axis=1)


def test_one_kernel_that_is_enough_is_the_only_member() -> None:
    matrix, facts = space(lambda m, n: columns(0.3, 0.0, 0.002 * (m > 900), 0.4, shapes=len(m)))
    steps = tuple(choose_members(matrix, 3, Goal(), facts))
    assert [len(step.members) for step in steps] == [1, 2, 3]
    assert steps[knee(steps) - 1].members == (1,)
    assert generalises(steps[0], Goal())


def test_two_kernels_that_a_size_tells_apart_are_both_chosen() -> None:
    matrix, facts = space(lambda m, n: columns(0.5 * (m > 300), 0.5 * (m <= 300), 0.4, shapes=len(m)))
    steps = tuple(choose_members(matrix, 3, Goal(), facts))
    chosen = steps[knee(steps) - 1]
    assert sorted(chosen.members) == [0, 1]
    assert chosen.oracle == pytest.approx(0, abs=1e-9)
    assert chosen.rule < 0.03
    assert chosen.second <= chosen.rule


def test_where_no_few_kernels_generalise_that_is_said() -> None:
    def own_kernel(m: Whole, n: Whole) -> Floats:  # every shape has a best kernel of its own, by no rule
        slowness = np.full((len(m), 40), 1.0)
        slowness[np.arange(len(m)), np.random.default_rng(1).integers(0, 40, len(m))] = 0.0
        return slowness

    matrix, facts = space(own_kernel)
    steps = tuple(choose_members(matrix, 4, Goal(), facts))
    assert not any(generalises(step, Goal()) for step in steps)


def test_equal_candidates_are_chosen_in_their_order_and_the_first_is_valid_everywhere() -> None:
    matrix, facts = space(lambda m, n: columns(0.1, 0.0, 0.0, shapes=len(m)))
    assert next(choose_members(matrix, 1, Goal(), facts)).members == (1,)
    everywhere = np.array([True, False, False])
    steps = tuple(choose_members(matrix, 2, Goal(), facts, valid_everywhere=everywhere))
    assert [step.members for step in steps] == [(0,), (0, 1)]


def test_a_first_member_that_later_ones_replace_is_exchanged() -> None:
    # alone, the compromise is best; two specialists are better than the compromise and one of them
    matrix, facts = space(lambda m, n: columns(0.3, 0.9 * (m > 500), 0.9 * (m <= 500), shapes=len(m)))
    steps = tuple(choose_members(matrix, 2, Goal(), facts))
    assert steps[0].members == (0,)
    assert sorted(steps[1].members) == [1, 2]


@pytest.mark.parametrize("kind", ["worst", "within"])
def test_other_goals_choose_for_the_slow_shapes(kind: str) -> None:
    # the second kernel is a little slower everywhere, the first is much slower at few shapes
    matrix, facts = space(lambda m, n: columns(1.5 * (m > 880), 0.04, 0.9, shapes=len(m)))
    assert next(choose_members(matrix, 1, Goal(kind), facts)).members == (1,)  # type: ignore[arg-type]


def test_the_knee_is_where_further_members_gain_little_each() -> None:
    for rules, kernels in (([0.2, 0.1, 0.098, 0.096], 2), ([0.24, 0.29, 0.15, 0.149], 3), ([0.02, 0.019], 1)):
        assert knee([MemberSet(tuple(range(count)), 0.0, rule, 0.0) for count, rule in enumerate(rules, 1)]) == kernels
