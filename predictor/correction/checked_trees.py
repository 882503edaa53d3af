"""CheckedTrees: residual trees of each kernel that count only where they help problems that they were not fitted to.

In a cross-validation over problems, each problem is corrected by trees that were fitted to other ones. The measurements
change nothing unless this reduces the squared errors by more than the reduction's standard error. The first choices
alone, among a few probes, are too noisy to say whether the trees help.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from seqtune.kernels.task import Floats

from ..trees.forest import Forest
from .observations import Observations
from .residual_trees import ResidualOptions, grow

FOLDS = 4  # parts of the problems that are left out in turn
LEAST_PROBLEMS = 8  # with which a correction of other problems is tried
OPTIONS = ResidualOptions()


@dataclass(frozen=True, slots=True, eq=False)
class CheckedTrees:
    """The trees that count, and the errors in the cross-validation.

    An error is the root mean square of log(measured time / expected time), up to a constant of each problem.
    """

    forests: Mapping[str, Forest]  # by kernel; none where they do not help
    error_before: float
    error_after: float  # each problem corrected by trees that were fitted to other ones, if the trees count

    @classmethod
    def fit(cls, observations: Observations) -> CheckedTrees:
        """Fit trees to at least one observation."""
        before, after = (_squares(observations, own)
                         for own in (np.zeros(len(observations)), _left_out(observations)))
        error = float(np.sqrt(before.mean()))
        if not _is_surely_positive(before - after):
            return cls({}, error, error)
        return cls(_fitted(observations, np.unique(observations.problem)), error, float(np.sqrt(after.mean())))


def _squares(observations: Observations, changes: Floats) -> Floats:
    """The weighted mean squared error of each problem whose expected log times are changed: (problem,)."""
    errors = observations.errors - observations.centred(changes)
    return observations.means(errors**2)[np.unique(observations.problem)]


def _is_surely_positive(gains: Floats) -> bool:
    """Whether the mean gain of enough problems is larger than its standard error."""
    return len(gains) >= LEAST_PROBLEMS and bool(gains.mean() > gains.std(ddof=1) / np.sqrt(len(gains)))


def _left_out(observations: Observations) -> Floats:
    """The correction of each row by trees that were fitted to other problems, (row,)."""
    problems, changes = np.unique(observations.problem), np.zeros(len(observations))
    for fold in range(FOLDS) if len(problems) >= LEAST_PROBLEMS else ():
        forests = _fitted(observations, np.delete(problems, np.s_[fold::FOLDS]))
        for name, forest in forests.items():
            rows = observations.rows[name]
            left_out = np.isin(observations.problem[rows], problems[fold::FOLDS])
            changes[rows[left_out]] = forest.margins(observations.tables[name][left_out])[:, 0]
    return changes


def _fitted(observations: Observations, problems: Collection[int]) -> dict[str, Forest]:
    """The trees of each kernel, fitted to the rows of some problems."""
    forests: dict[str, Forest] = {}
    errors, weights = observations.errors, observations.weights
    for name, rows in observations.rows.items():
        fitting = np.isin(observations.problem[rows], list(problems))
        if fitting.any():
            chosen = rows[fitting]
            forests[name] = grow(observations.tables[name][fitting], errors[chosen], weights[chosen], OPTIONS, 0)
    return forests
