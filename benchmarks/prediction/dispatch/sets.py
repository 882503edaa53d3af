"""Sets: whether members chosen one by one with their rules are as good as the best set, if the oracle chose in it.

`chosen` are the members of `choose_members`, `swapped` are those of the greedy choice after exchanges of one member for
another as long as that helps, `best` is proved by an integer program. All figures are the geometric mean of the share
of the best speed, over all problems.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seqtune.kernels.expression import Expression
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.task import Floats
from seqtune.predictor.dispatch.facts import Fact, fact_columns
from seqtune.predictor.dispatch.goal import Goal
from seqtune.predictor.dispatch.matrix import WORST, Matrix, most_helpful
from seqtune.predictor.dispatch.members import choose_members
from seqtune.predictor.dispatch.rule import Whole

MOST = 10
CLOSE = 0.002  # of the best speed: how close a chosen set must be to the best one
SECONDS = 60.0  # for one integer program; a bound that is not proved by then is a bound all the same
FEATURES = ("n", "c", "h", "k", "r", "stride_h", "out_h")  # the facts of rules of find-dbs: here, the sets are judged


@dataclass(frozen=True, slots=True)
class SetRow:
    """The shares of the best speed that sets of one size reach."""

    members: int
    chosen: float
    swapped: float
    best: float
    holds: bool  # whether the chosen set is CLOSE to the best one


def set_rows(matrix: Matrix, columns: ProblemColumns, features: Sequence[str] = FEATURES) -> list[SetRow]:
    """Compare the sets of 1 to MOST members of a matrix, whose problems are also given as columns."""
    facts = tuple(Fact(name, Expression(name)) for name in features)
    values = fact_columns(facts, columns)
    slowness, weights = matrix.slowness(), matrix.weights
    rows = []
    for step in choose_members(matrix, MOST, Goal(), lambda members: (facts, values)):
        chosen, exchanged, best = (_share(slowness, members) for members in (
            step.members, swapped(slowness, most_helpful(slowness, weights, step.kernels)),
            best_set(slowness, step.kernels)))
        rows.append(SetRow(step.kernels, chosen, exchanged, best, chosen >= max(exchanged, best) - CLOSE))
    return rows


def _share(slowness: Floats, members: Sequence[int]) -> float:
    return math.exp(-slowness[:, list(members)].min(axis=1).mean())


def swapped(slowness: Floats, members: Sequence[int]) -> list[int]:
    """Exchange single members for other candidates as long as that helps the oracle."""
    best = list(members)
    least = slowness[:, best].min(axis=1).mean()
    while True:
        trials = [[*best[:index], other, *best[index + 1:]] for index in range(len(best))
                  for other in range(slowness.shape[1]) if other not in best]
        losses = [slowness[:, trial].min(axis=1).mean() for trial in trials]
        if not losses or min(losses) >= least - 1e-12:
            return best
        best, least = trials[int(np.argmin(losses))], min(losses)


def best_set(slowness: Floats, count: int) -> list[int]:
    """The best set of that size, by an integer program.

    A problem loses the slowness of its fastest solver, and each further step to its next one if no solver before the
    step is in the set. Steps of all problems with the same solvers before them are one variable.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped]
    from scipy.sparse import coo_array  # type: ignore[import-untyped]

    order = np.argsort(slowness, axis=1, kind="stable")
    ordered = np.take_along_axis(slowness, order, axis=1)
    costs: dict[frozenset[int], float] = {}
    for row, sizes in zip(order.tolist(), ordered, strict=True):
        for index in range(int((sizes < WORST).sum())):
            following = sizes[index + 1] if index + 1 < len(sizes) else WORST
            if following > sizes[index]:
                before = frozenset(row[:index + 1])
                costs[before] = costs.get(before, 0.0) + float(following - sizes[index]) / len(slowness)
    candidates, steps = slowness.shape[1], list(costs)
    rows: Whole = np.array([number for number, step in enumerate(steps) for _ in range(len(step) + 1)])
    columns = [column for number, step in enumerate(steps) for column in (*sorted(step), candidates + number)]
    taken = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(steps), candidates + len(steps)))
    chosen = np.concatenate([np.ones(candidates), np.zeros(len(steps))])
    result = milp(np.concatenate([np.zeros(candidates), list(costs.values())]),
                  integrality=chosen, bounds=Bounds(0, 1),
                  constraints=[LinearConstraint(taken.tocsr(), 1, np.inf), LinearConstraint(chosen, count, count)],
                  options={"time_limit": SECONDS})
    return np.flatnonzero(result.x[:candidates] > 0.5).tolist() if result.x is not None else list(range(count))
