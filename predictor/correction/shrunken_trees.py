"""ShrunkenTrees: residual trees of each kernel, shrunk by cross-validation over problems.

In the cross-validation, each problem is corrected by trees that were fitted to other problems. The factor that leaves
the least squared errors shrinks the trees of all problems. The factor is 0, and the measurements change nothing, if the
gain is not larger than its standard error, or if the first choices would be slower. The first choices alone, among a
few probes, are too noisy to find the factor.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from seqtune.kernels.task import Floats

from ..trees.forest import Forest
from .observations import Observations
from .residual_trees import ResidualOptions, grow

FACTORS = (0.5, 1.0)  # of the correction, or 0
FOLDS = 4  # parts of the problems that are left out in turn
LEAST_PROBLEMS = 8  # with which a correction of other problems is tried
OPTIONS = ResidualOptions()


@dataclass(frozen=True, slots=True, eq=False)
class ShrunkenTrees:
    """The trees after the shrinkage, and its effect in the cross-validation."""

    forests: Mapping[str, Forest]  # by kernel; none where the factor is 0
    factor: float  # by which the corrections were multiplied
    before: float  # share of the best measured speed that the first choices reach (geometric mean)
    after: float  # the same, each problem corrected by other ones only

    @classmethod
    def fit(cls, observations: Observations) -> ShrunkenTrees:
        """Fit trees to at least one observation."""
        others = _left_out(observations)
        factor = _best_factor(observations, others)
        before, after = (_share(observations, observations.expected + changes)
                         for changes in (np.zeros(len(others)), factor * others))
        if after < before:
            factor, after = 0.0, before
        forests = {} if factor == 0.0 else _fitted(observations, np.unique(observations.problem))
        return cls({name: _scaled(forest, factor) for name, forest in forests.items()}, factor, before, after)


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


def _scaled(forest: Forest, factor: float) -> Forest:
    """The forest whose predictions are multiplied; files hold leaves of 16 bits."""
    leaf, value = forest.left == 0, forest.value.copy()
    value[leaf] = (value[leaf] * factor).astype(np.float16)
    return replace(forest, value=value)


def _best_factor(observations: Observations, others: Floats) -> float:
    """The factor with which corrections by other problems surely reduce the squared errors most, or 0."""
    best, most = 0.0, 0.0
    errors, changes = observations.errors, observations.centred(others)
    problems = np.unique(observations.problem)
    for factor in FACTORS if len(problems) >= LEAST_PROBLEMS else ():
        gains = observations.means(errors**2 - (errors - factor * changes)**2)[problems]
        sure = float(gains.mean() - gains.std(ddof=1) / np.sqrt(len(gains)))
        if sure > most:
            best, most = factor, sure
    return best


def _share(observations: Observations, predicted: Floats) -> float:
    """The share of the best measured speed that the first choices by the predicted slowness reach."""
    return float(np.exp(-np.mean([observations.observed[rows][np.argmin(predicted[rows])]
                                  for rows in observations.problems()])))
