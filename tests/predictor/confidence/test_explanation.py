"""Explanations: constraints are exact, costs are the trees', known problems are the nearest, facts are ablated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from seqtune.data.measured_tasks import measured_tasks
from seqtune.predictor.confidence.explanation import KnownProblem, explain, fact_weights, steps_of
from seqtune.predictor.experts.expert import Opinions
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from seqtune.predictor.trees.ranker import Ranker
from tests.support.synthetic import data, registered

pytestmark = pytest.mark.usefixtures("fake_kernel")

with registered():
    TASKS = measured_tasks(data(6, held_out=2, sampled=60), held_out=False)
RANKER = Ranker.of(Trees(TASKS, TreesOptions(rounds=20, models=2, threads=1)))
KNOWN = [KnownProblem(measured.problem, measured.device, measured.task[int(np.nanargmin(measured.seconds))],
                      measured.best) for measured in TASKS]
TASK = TASKS[0].task
ORDER = np.argsort(RANKER.slowness(TASK, np.arange(len(TASK))), kind="stable")[:4].tolist()
PROPOSALS = [TASK[number] for number in ORDER]


def test_each_step_is_valid_with_a_cost_or_forbidden_by_a_constraint() -> None:
    steps = steps_of(TASK, PROPOSALS[0], RANKER)
    assert {step.parameter for step in steps} <= {name for name, _ in PROPOSALS[0].settings}
    assert steps
    for step in steps:
        moved = replace(PROPOSALS[0], settings=tuple(
            (name, step.next_value if name == step.parameter else value) for name, value in PROPOSALS[0].settings))
        assert (TASK.find(moved) is None) == (step.reason is not None)
        assert (step.slowdown is None) == (step.reason is not None)
    assert any(step.slowdown is not None and step.slowdown >= 0.99 for step in steps)
    assert all(step.slowdown is None for step in steps_of(TASK, PROPOSALS[0], None))


def test_facts_that_change_the_lead_are_listed_by_their_weight() -> None:
    facts = fact_weights(TASK, PROPOSALS, RANKER, KNOWN)
    changes = [abs(np.log(fact.lead_without / fact.lead)) for fact in facts]
    assert changes == sorted(changes, reverse=True)
    assert all(change > 0 for change in changes)
    assert all(fact.value != fact.median for fact in facts)
    assert fact_weights(TASK, PROPOSALS[:1], RANKER, KNOWN) == []


def test_experts_are_listed_with_a_share_for_each_proposal() -> None:
    said = Opinions(np.zeros(2), {"trees": np.array([[-0.01], [0.5]]), "judge": np.array([[0.1], [0.2]])})
    explanation = explain(TASK, PROPOSALS[:2], RANKER, KNOWN, said)
    trees, judge = explanation.experts
    assert (trees.expert, judge.expert) == ("trees", "judge")
    assert judge.shares == pytest.approx(np.exp([-0.1, -0.2]))
    assert trees.shares == pytest.approx((1.0, np.exp(-0.5)))  # nothing is faster than the best
    assert explanation.mean_shares == pytest.approx(np.exp([-0.05, -0.35]))
    assert explain(TASK, PROPOSALS, RANKER, KNOWN, Opinions(np.full(4, np.nan), {})).experts == ()
