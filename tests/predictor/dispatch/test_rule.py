"""Rules: learned from planted facts, written and read again, and as text."""

import json
from typing import Any

import numpy as np
import pytest

from seqtune.errors import MisuseError
from seqtune.kernels.expression import Expression
from seqtune.kernels.task import Floats
from seqtune.predictor.dispatch.facts import Fact
from seqtune.predictor.dispatch.goal import Goal
from seqtune.predictor.dispatch.rule import Rule, cross_fitted, learn_rule
from seqtune.predictor.dispatch.tree import DIGITS, Tree, Whole, digits

FACTS = (Fact("m", Expression("m")), Fact("n", Expression("n")), Fact("m * n", Expression("m * n")))


def planted(shapes: int = 400, seed: int = 0) -> tuple[Whole, Floats, Floats, Whole]:
    """Shapes where member 0 is best if m is above 100, else member 1 if n is even-sized, else member 2."""
    generator = np.random.default_rng(seed)
    m, n = generator.integers(1, 1000, shapes), generator.integers(1, 64, shapes)
    values = np.stack([m, n, m * n], axis=1)
    best = np.where(m > 100, 0, np.where(n > 20, 1, 2))
    slowness = np.full((shapes, 3), 0.5)
    slowness[np.arange(shapes), best] = 0.0
    return values, slowness, np.full(shapes, 1 / shapes), best


def columns_of(rule: Rule, values: Whole) -> Whole:
    return values[:, [FACTS.index(fact) for fact in rule.facts]]


def test_a_rule_finds_planted_thresholds_and_says_them() -> None:
    values, slowness, weights, best = planted()
    rule = learn_rule(values, slowness, weights, Goal(), FACTS)
    assert (rule.order(columns_of(rule, values))[:, 0] == best).mean() > 0.98
    conditions = dict(line.strip(" if:").split(" > ") for line in rule.text().splitlines() if " > " in line)
    assert float(conditions["m"]) == pytest.approx(100, abs=25)
    assert float(conditions["n"]) == pytest.approx(20, abs=2)


def test_cross_fitted_picks_are_good_on_shapes_that_the_rule_did_not_see() -> None:
    values, slowness, weights, _ = planted()
    picks = cross_fitted(values, slowness, weights, Goal(), FACTS)
    assert picks.shape == (400, 2)
    assert (picks[:, 0] != picks[:, 1]).all()
    assert slowness[np.arange(400), picks[:, 0]].mean() < 0.05


def test_a_rule_in_json_is_the_same_rule() -> None:
    values, slowness, weights, _ = planted()
    rule = learn_rule(values, slowness, weights, Goal(), FACTS)
    again = Rule.from_json(json.loads(json.dumps(rule.to_json())))
    assert again.to_json() == rule.to_json()
    assert again.bytes == rule.bytes <= 16_000
    columns = columns_of(rule, values)
    assert (again.scores(columns) == rule.scores(columns)).all()


def test_a_tree_is_printed_as_conditions() -> None:
    tree = Tree(np.array([0, 1, 1]), np.array([[0, 4], [0, 4], [4, 0], [0, 4]]))
    rule = Rule(2, FACTS[:2], np.array([0, 1]), np.array([100, 20]), (tree,))
    assert rule.text(["big", "small"]) == (
        "if m > 100:\n    if n > 20:\n        big\n    else:\n        small\nelse:\n    big")
    assert Rule(1, (), np.array([], np.int64), np.array([], np.int64), ()).text() == "always kernel 0"


def test_ties_go_to_the_first_member_and_sure_is_a_lead_of_the_first() -> None:
    tree = Tree(np.array([0]), np.array([[0, 0], [0, -3]]), 2)
    rule = Rule(2, FACTS[:1], np.array([0]), np.array([10]), (tree,), sure=6)
    scores = rule.scores(np.array([[5], [11]]))
    assert scores.tolist() == [[0, 0], [0, -6]]
    assert rule.order(np.array([[5], [11]])).tolist() == [[0, 1], [1, 0]]
    assert rule.is_sure(scores).tolist() == [False, True]


def test_digits_need_no_escape() -> None:
    text = digits(range(DIGITS))
    assert len(set(text)) == DIGITS
    assert not set(text) & set('?"\\')
    assert all(" " < one <= "~" for one in text)
    assert digits([90, 91], 2) == text[0] + text[90] + text[1] + text[0]


@pytest.mark.parametrize("change", [
    {"members": 0}, {"members": "2"}, {"members": 3}, {"sure": None}, {"facts": [["m"]]},
    {"facts": [{"name": "m", "text": "import os"}]}, {"test_facts": [9]}, {"test_facts": [0, 0]},
    {"thresholds": [2**70]}, {"thresholds": [True]}, {"trees": {}},
    {"trees": [{"scale": 0, "tests": [], "leaves": [0, 0]}]},
    {"trees": [{"scale": 1, "tests": [7], "leaves": [0] * 4}]}, {"trees": [{"scale": 1, "tests": [0], "leaves": [0]}]},
    {"trees": [{"scale": 1, "tests": [], "leaves": [9, 0]}]}, {"trees": [{"scale": 1, "tests": [], "leaves": []}]}])
def test_a_damaged_rule_is_refused(change: dict[str, Any]) -> None:
    tree = Tree(np.array([0]), np.array([[1, 0], [-1, 0]]))
    content = Rule(2, FACTS[:1], np.array([0]), np.array([10]), (tree,)).to_json()
    Rule.from_json(content)
    with pytest.raises(MisuseError):
        Rule.from_json({**content, **change})


def test_unknown_slowness_is_refused() -> None:
    with pytest.raises(MisuseError, match="every member"):
        learn_rule(np.ones((3, 1), np.int64), np.full((3, 2), np.nan), np.ones(3) / 3, Goal(), FACTS[:1])


def test_boosted_trees_are_learned_where_one_small_tree_is_too_coarse() -> None:
    generator = np.random.default_rng(0)
    m, n = generator.integers(1, 1000, 600), generator.integers(1, 1000, 600)
    values = np.stack([m, n, m * n], axis=1)
    best = (m // 125 + n // 125) % 3  # a chequered plane
    slowness = np.full((600, 3), 0.5)
    slowness[np.arange(600), best] = 0.0
    weights = np.full(600, 1 / 600)
    rule = learn_rule(values, slowness, weights, Goal(), FACTS, room=6000)
    assert len(rule.trees) > 1
    assert rule.bytes <= 6000
    assert "trees, of " in rule.text()
    assert rule.to_json() == learn_rule(values, slowness, weights, Goal(), FACTS, room=6000).to_json()
    scores = rule.scores(columns_of(rule, values))
    assert slowness[np.arange(600), scores.argmin(axis=1)].mean() < 0.15
    assert rule.is_sure(scores).mean() == pytest.approx(0.8, abs=0.05)


def test_members_that_are_equal_everywhere_need_no_tree() -> None:
    values, slowness, weights, _ = planted()
    rule = learn_rule(values, np.repeat(slowness[:, :1], 2, axis=1), weights, Goal(), FACTS)
    assert rule.trees == ()
    assert rule.order(values[:2, :0]).tolist() == [[0, 1], [0, 1]]
