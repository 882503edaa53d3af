"""Rules: how close a rule's choice among six solvers comes to the best solver, on a quarter of the problems.

The other three quarters choose the members and teach the rule. `first` is the geometric mean of the share of the best
speed of the rule's first choice, `two` that of the faster one of its first two, `sure` that of the four fifths of the
problems where its lead is greatest. A solver that the find-db lacks for a problem counts as 20 times slower than the
best. In the columns `guarded`, such solvers are passed over, as guards pass over kernels that are not valid; this is
too kind, since a find-db also lacks valid solvers that are slower than four others. A rule that will stand behind
guards learns as if they were passed over, too: that is the second row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import is_installed
from seqtune.kernels.task import Floats
from seqtune.predictor.dispatch.c_file import c_file
from seqtune.predictor.dispatch.dispatcher import Dispatcher
from seqtune.predictor.dispatch.domain import Domain
from seqtune.predictor.dispatch.facts import fact_columns, facts_of
from seqtune.predictor.dispatch.goal import Goal
from seqtune.predictor.dispatch.learning import Learner
from seqtune.predictor.dispatch.matrix import WORST, most_helpful
from seqtune.predictor.dispatch.rule import Rule, Whole

from .find_dbs import SolverTimes

MEMBERS = 6
SURE = 0.8  # share of the problems that is answered, where the lead is greatest
LABEL_DEPTH = 6  # of Helion's and Lawson's trees
FOREST = 25  # trees
SEED = 0


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A method, and the shares of the best speed that it reaches on problems that it did not see."""

    method: str
    oracle: float  # if the best member were known
    first: float
    two: float
    sure: float
    guarded: float
    guarded_two: float
    bytes: int  # of the source in C with all members and the rule; 0: there is none


def rule_rows(times: SolverTimes, seed: int) -> list[RuleRow]:
    """Evaluate our rule and the baselines on a quarter of the problems, drawn by the seed."""
    count = len(times.matrix.problems)
    held = np.random.default_rng(seed).permutation(count) % 4 == 0
    fit, test = np.flatnonzero(~held), np.flatnonzero(held)
    slowness = times.matrix.slowness()
    members = most_helpful(slowness[fit], np.full(len(fit), 1 / len(fit)), MEMBERS)
    own = slowness[:, members]
    rows = []
    for method, valid in (("seqtune's rule", None), ("seqtune's rule behind guards", own < WORST)):
        rule, values = learned(times, own, members, fit, valid)
        dispatcher = Dispatcher.of([times.matrix.candidates[each] for each in members], {}, None, rule,
                                   Domain.of_shapes(times.matrix.problems))
        size = len(c_file(dispatcher, "solvers")[1])
        rows.append(_row(method, own[test], rule.scores(values[test]), size))
    rows.append(_row("one solver", own[test], np.tile(own[fit].mean(axis=0), (len(test), 1))))
    if not is_installed("sklearn"):
        return rows
    plain = np.stack([times.columns.values[feature.name].astype(np.float64)
                      for feature in times.columns.operation.features if not feature.choices], axis=1)
    for method, score in BASELINES.items():
        rows.append(_row(method, own[test], score(plain[fit], own[fit], plain[test])))
    clustered = centres(slowness[fit])
    rows.append(_row("Lawson's clusters and tree", slowness[test][:, clustered],
                     label_tree(plain[fit], slowness[fit][:, clustered], plain[test])))
    if is_installed("helion"):
        chosen, scores = helion_rule(plain[fit], slowness[fit], plain[test])
        rows.append(_row("Helion's set and rule", slowness[test][:, chosen], scores))
    return rows


def learned(times: SolverTimes, slowness: Floats, members: list[int], fit: Whole,
            valid: NDArray[np.bool_] | None = None) -> tuple[Rule, NDArray[np.int64]]:
    """The rule learned from the problems `fit`, and the values of its facts at all problems.

    `valid` says which members guards let through, (problem, member); None: there are no guards.
    """
    matrix = times.matrix.take(fit)
    facts = facts_of(times.columns.operation, matrix.problems, [matrix.candidates[each] for each in members],
                     times.device)
    values = fact_columns(facts, times.columns)
    rule = Learner(values[fit], slowness[fit], matrix.weights, Goal(), facts, seed=SEED,
                   valid=None if valid is None else valid[fit]).rule()
    return rule, values[:, [facts.index(fact) for fact in rule.facts]]


def _row(method: str, slowness: Floats, scores: NDArray[np.floating] | NDArray[np.int64], size: int = 0) -> RuleRow:
    """The row of a method from its scores, the lowest first. Shapes: (problem, member)."""
    order = np.argsort(scores, axis=1, kind="stable")
    ordered = np.take_along_axis(slowness, order, axis=1)
    least = np.sort(scores, axis=1)
    sure = np.argsort(least[:, 0] - least[:, 1], kind="stable")[:round(SURE * len(scores))]
    valid = np.argsort(ordered >= WORST, axis=1, kind="stable")
    guarded = np.take_along_axis(ordered, valid, axis=1)
    oracle, first, two, certain, guard, guard_two = (math.exp(-float(losses.mean())) for losses in (
        slowness.min(axis=1), ordered[:, 0], ordered[:, :2].min(axis=1), ordered[sure, 0], guarded[:, 0],
        guarded[:, :2].min(axis=1)))
    return RuleRow(method, oracle, first, two, certain, guard, guard_two, size)


def label_tree(values: Floats, slowness: Floats, asked: Floats) -> Floats:
    """A tree over the plain features that learns which solver is best, as Helion's generator grows it."""
    from sklearn.tree import DecisionTreeClassifier  # type: ignore[import-untyped]

    tree = DecisionTreeClassifier(max_depth=LABEL_DEPTH, criterion="entropy", random_state=SEED)
    return _likely(tree.fit(values, slowness.argmin(axis=1)), asked, slowness.shape[1])


def label_forest(values: Floats, slowness: Floats, asked: Floats) -> Floats:
    """A forest of any size that learns which solver is best."""
    from sklearn.ensemble import RandomForestClassifier  # type: ignore[import-untyped]

    forest = RandomForestClassifier(FOREST, random_state=SEED)
    return _likely(forest.fit(values, slowness.argmin(axis=1)), asked, slowness.shape[1])


def slowness_forest(values: Floats, slowness: Floats, asked: Floats) -> Floats:
    """A forest of any size that learns the slowness of every solver."""
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(FOREST, random_state=SEED)
    return np.asarray(forest.fit(values, slowness).predict(asked), np.float64)


def _likely(model: object, asked: Floats, members: int) -> Floats:
    scores = np.zeros((len(asked), members))
    scores[:, model.classes_] = -model.predict_proba(asked)  # type: ignore[attr-defined]
    return scores


def centres(slowness: Floats) -> list[int]:
    """Solvers by Lawson's way: clusters of vectors of speed, and of each cluster the solver that is fastest there."""
    from sklearn.cluster import KMeans  # type: ignore[import-untyped]

    speed = np.exp(-slowness)
    count = min(MEMBERS, len(np.unique(speed, axis=0)))
    labels = KMeans(count, n_init=10, random_state=SEED).fit_predict(speed)
    return list(dict.fromkeys(int(speed[labels == label].mean(axis=0).argmax()) for label in range(count)))


def helion_rule(values: Floats, slowness: Floats, asked: Floats) -> tuple[list[int], Floats]:
    """Solvers and a rule by Helion's package, with its own defaults: the set, and 0 for the rule's choice, else 1.

    It has no second choice. A solver that is missing has no time, as there where a configuration is not valid.
    """
    from helion.autotuner.decision_tree_backend import DecisionTreeBackend
    from helion.autotuner.heuristic_generator import PerformanceTarget, ShapeConfigData, select_config_subset
    from helion.runtime.config import Config

    names = [f"key_{number}" for number in range(values.shape[1])]  # its names of positional arguments
    configs = [Config(solver=number) for number in range(slowness.shape[1])]
    data = ShapeConfigData(
        "solvers", [dict(zip(names, row, strict=True)) for row in values.tolist()],
        np.where(slowness < WORST, np.exp(slowness), np.inf), configs, list(map(str, range(len(values)))),
        list(map(str, range(len(configs)))))
    data.selected_config_indices, _ = select_config_subset(data, PerformanceTarget(max_configs=MEMBERS, verbose=False))
    chosen: list[int] = data.selected_config_indices
    written: dict[str, Any] = {}
    exec(DecisionTreeBackend().generate_heuristic(  # the file that Helion would import
        "solvers", data, [configs[each] for each in chosen], names).generated_code, written)
    scores = np.ones((len(asked), len(chosen)))
    for row, features in enumerate(asked.tolist()):
        scores[row, written["key_solvers"](*features)] = 0.0
    return chosen, scores


BASELINES: dict[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "label tree of depth 6": label_tree, "label forest": label_forest, "slowness forest": slowness_forest}
