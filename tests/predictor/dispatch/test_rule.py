"""Rules: learned from planted facts, and as text."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.errors import MisuseError
from seqtune.kernels.expression import Expression
from seqtune.kernels.task import Floats
from seqtune.predictor.dispatch.facts import Fact
from seqtune.predictor.dispatch.goal import Goal
from seqtune.predictor.dispatch.learning import Learner
from seqtune.predictor.dispatch.matrix import WORST
from seqtune.predictor.dispatch.rule import FAR, Rule, Tree, Whole

FACTS = tuple(Fact(text, Expression(text)) for text in ("m", "n", "m * n"))


def planted(shapes: int, best: str, seed: int = 0) -> tuple[Whole, Floats, Floats]:
    """Facts of shapes, the slowness of three members, of which the expression names the best, and weights."""
    generator = np.random.default_rng(seed)
    m, n = generator.integers(1, 1000, shapes), generator.integers(1, 1000, shapes)
    slowness = np.full((shapes, 3), 0.5)
    slowness[np.arange(shapes), Expression(best)({"m": m, "n": n})] = 0.0
    return np.stack([m, n, m * n], axis=1), slowness, np.full(shapes, 1 / shapes)


def scores(rule: Rule, values: Whole) -> Whole:
    return rule.scores(values[:, [FACTS.index(fact) for fact in rule.facts]])


def test_a_rule_finds_planted_thresholds_and_says_them() -> None:
    values, slowness, weights = planted(400, "0 if m > 500 else 1 if n > 400 else 2")
    rule = Learner(values, slowness, weights, Goal(), FACTS).rule()
    assert slowness[np.arange(400), scores(rule, values).argmin(axis=1)].mean() < 0.01
    lines = rule.text(["zero", "one", "two"]).splitlines()
    conditions = dict(line.strip(" if:").split(" > ") for line in lines if " > " in line)
    assert float(conditions["m"]) == pytest.approx(500, abs=25)
    assert float(conditions["n"]) == pytest.approx(400, abs=50)
    assert {line.strip() for line in lines} >= {"zero", "one", "two"}


def test_boosted_trees_are_learned_where_one_small_tree_is_too_coarse() -> None:
    values, slowness, weights = planted(600, "(m // 125 + n // 125) % 3")
    rule = Learner(values, slowness, weights, Goal(), FACTS, room=6000).rule()
    assert len(rule.trees) > 1
    assert "trees, of " in rule.text(["zero", "one", "two"])
    assert rule == Learner(values, slowness, weights, Goal(), FACTS, room=6000).rule()
    assert slowness[np.arange(600), scores(rule, values).argmin(axis=1)].mean() < 0.15
    assert (rule.leads(scores(rule, values)) >= rule.sure).mean() == pytest.approx(0.8, abs=0.05)


def test_sums_are_exact_so_that_a_rule_is_the_same_in_any_order_of_the_shapes_and_with_any_blas() -> None:
    values, slowness, weights = planted(300, "(m // 125 + n // 125) % 3")
    slowness += np.random.default_rng(1).random(slowness.shape)
    learner = Learner(values, slowness, weights, Goal(), FACTS, room=6000)
    for seed in range(3):
        assert learner.learn(np.arange(300), True) == learner.learn(np.random.default_rng(seed).permutation(300), True)


def test_cross_fitted_picks_are_good_on_shapes_that_the_rule_did_not_see() -> None:
    values, slowness, weights = planted(400, "0 if m > 500 else 1 if n > 400 else 2")
    picks = Learner(values, slowness, weights, Goal(), FACTS).cross_fit(5)[1]
    assert picks.shape == (400, 2)
    assert (picks[:, 0] != picks[:, 1]).all()
    assert slowness[np.arange(400), picks[:, 0]].mean() < 0.05


def test_shapes_of_weight_0_teach_a_rule_and_are_not_judged() -> None:
    values, slowness, weights = planted(400, "0 if m > 500 else 1 if n > 400 else 2")
    weights[6:] = 0.0

    def loss(shapes: int) -> float:
        rule = Learner(values[:shapes], slowness[:shapes], weights[:shapes], Goal(), FACTS).rule()
        return float(slowness[np.arange(200, 400), scores(rule, values)[200:].argmin(axis=1)].mean())

    assert loss(200) < 0.02 < 0.1 < loss(6)
    wrong = slowness.copy()
    wrong[6:] = wrong[6:, ::-1]  # what they teach is wrong, which the six others show
    picks = Learner(values, wrong, weights, Goal(), FACTS).cross_fit(4)[1]
    assert (picks[6:] == [0, 1]).all()


def test_what_guards_pass_over_does_not_keep_a_rule_from_the_choice_among_valid_members() -> None:
    values, slowness, weights = planted(120, "0 if m > 500 else 1")
    valid = np.random.default_rng(0).random((120, 3)) < 0.7  # no fact tells where a member is valid
    valid[:, 2] = True
    slowness = np.where(valid, slowness, WORST)

    def loss(told: NDArray[np.bool_] | None) -> float:
        rule = Learner(values, slowness, weights, Goal(), FACTS, valid=told).rule()
        return float(slowness[np.arange(120), np.where(valid, scores(rule, values), FAR).argmin(axis=1)].mean())

    assert loss(valid) == pytest.approx(slowness.min(axis=1).mean(), abs=0.01)
    assert loss(None) > loss(valid) + 0.02


def test_a_tree_is_printed_as_conditions_without_branches_that_end_alike() -> None:
    tree = Tree((0, 1, 1), ((0, 4), (0, 4), (4, 0), (0, 4)))
    assert Rule(2, FACTS[:2], ((0, 100), (1, 20)), (tree,)).text(["big", "small"]) == (
        "if m > 100:\n    if n > 20:\n        big\n    else:\n        small\nelse:\n    big")
    assert Rule(1).text(["big"]) == "always big"


def test_members_that_are_equal_need_no_tree_and_unknown_slowness_is_refused() -> None:
    values, slowness, weights = planted(50, "0 if m > 100 else 1")
    assert Learner(values, np.repeat(slowness[:, :1], 2, axis=1), weights, Goal(), FACTS).rule().trees == ()
    with pytest.raises(MisuseError, match="every member"):
        Learner(values, np.full((50, 2), np.nan), weights, Goal(), FACTS).rule()
