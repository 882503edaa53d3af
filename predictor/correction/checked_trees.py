"""CheckedTrees: residual trees of each kernel that count only where they help problems that they were not fitted to.

In a cross-validation over problems, each problem is corrected by trees that were fitted to other ones. The measurements
change nothing unless this reduces the squared errors by more than the reduction's standard error. The first choices
alone, among a few probes, are too noisy to say whether the trees help.

Residual trees are small trees that are boosted on some hundred errors of predictions, with NumPy alone. A prediction
can wait for a fit, which takes less time than the import of a library for boosted trees. The trees are a `Forest`, as
those of the ranker. A node is split where the sum of squared errors falls most, and leaves are shrunk (Chen and
Guestrin, "XGBoost", 2016, equations 5 and 7, for squared errors).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.task import Floats

from ..trees.forest import Forest
from .observations import Observations

BINS = 32  # thresholds tried for a feature
SHRINK = 1.0  # weight of the errors of 0 that a leaf is averaged with


@dataclass(frozen=True, slots=True)
class ResidualOptions:
    """The settings of residual trees, chosen on a machine of which half of the problems were probed."""

    rounds: int = 20  # trees
    rate: float = 0.1
    depth: int = 3
    least_weight: float = 5.0  # minimum weight of a leaf
    subsample: float = 0.8  # share of the rows that a tree is fitted to
    columns: float = 0.6  # share of the features with several values that a tree may use
    part: float = 0.5  # share of what the trees learned that counts: a few hundred errors hold much noise


def grow(rows: NDArray[np.float32], target: Floats, weights: Floats, options: ResidualOptions, seed: int) -> Forest:
    """Boost trees on `rows` (row, feature) for `target` (row,) with `weights` (row,). The seed decides all draws."""
    thresholds, codes = _binned(rows)
    generator = np.random.default_rng(seed)
    varied = np.flatnonzero([len(values) for values in thresholds])
    share = max(1, round(options.columns * len(varied)))
    fitted = np.zeros(len(rows))
    trees = []
    for _ in range(options.rounds):
        drawn = weights * (generator.random(len(rows)) < options.subsample)
        columns = np.sort(generator.permutation(varied)[:share])
        tree = _Tree(options, columns, thresholds)
        fitted += tree.fit(codes, target - fitted, drawn)
        trees.append(tree)
    value = np.array([value for tree in trees for value in tree.value], np.float32)
    left = np.array([left for tree in trees for left in tree.left], np.uint16)
    value[left == 0] = (value[left == 0] * options.part).astype(np.float16)  # as files hold it
    return Forest(1, np.cumsum([0, *(len(tree.value) for tree in trees)])[:-1].astype(np.int32),
                  np.array([feature for tree in trees for feature in tree.feature], np.uint8), value, left)


def _binned(rows: NDArray[np.float32]) -> tuple[list[NDArray[np.float32]], NDArray[np.int64]]:
    """The thresholds of each feature, ascending, and how many of them each value reaches: (row, feature)."""
    thresholds, codes = [], np.zeros(rows.shape, np.int64)
    for column, values in enumerate(rows.T):
        distinct = np.unique(values)[1:]  # nothing is below the least value
        if len(distinct) > BINS - 1:
            ordered = np.sort(values)
            distinct = np.unique(ordered[np.linspace(0, len(ordered) - 1, BINS + 1).astype(np.int64)[1:-1]])
            distinct = distinct[distinct > ordered[0]]
        thresholds.append(distinct)
        codes[:, column] = np.searchsorted(distinct, values, side="right")
    return thresholds, codes


class _Tree:
    """One tree, level by level; `feature`, `value` and `left` are as in Forest."""

    def __init__(self, options: ResidualOptions, columns: NDArray[np.int64],
                 thresholds: list[NDArray[np.float32]]) -> None:
        self.options, self._columns, self._thresholds = options, columns, thresholds
        self.feature, self.value, self.left = [0], [0.0], [0]

    def fit(self, codes: NDArray[np.int64], errors: Floats, weights: Floats) -> Floats:
        """Fit the tree to the errors; return its prediction of each row."""
        node = np.zeros(len(codes), np.int64)
        flat = codes[:, self._columns] + np.arange(len(self._columns)) * BINS
        begin = 0
        for _ in range(self.options.depth if len(self._columns) else 0):
            end = len(self.value)
            rows = np.flatnonzero(node >= begin)
            for number, (gain, column, code) in enumerate(self._splits(flat[rows], node[rows] - begin, end - begin,
                                                                       (weights * errors)[rows], weights[rows])):
                if gain > 0:
                    self._split(begin + number, int(self._columns[column]), code)
                    members = rows[node[rows] == begin + number]
                    node[members] = self.left[begin + number] + (codes[members, self._columns[column]] > code)
            begin = end
            if begin == len(self.value):
                break
        sums = np.bincount(node, weights * errors, len(self.value))
        leaves = self.options.rate * sums / (np.bincount(node, weights, len(self.value)) + SHRINK)
        for number, left in enumerate(self.left):
            if not left:
                self.value[number] = float(leaves[number])
        return np.asarray(self.value)[node]

    def _splits(self, flat: NDArray[np.int64], node: NDArray[np.int64], nodes: int, sums: Floats,
                weights: Floats) -> list[tuple[float, int, int]]:
        """The best split of each node: its gain, its column and the last code that goes left."""
        width = len(self._columns)
        index = (flat + (node * width * BINS)[:, None]).ravel()
        first, second = (np.bincount(index, np.repeat(values, width), nodes * width * BINS).reshape(
            nodes, width, BINS).cumsum(axis=2) for values in (sums, weights))
        total, weight = first[:, :1, -1:], second[:, :1, -1:]
        gains = (first**2 / (second + SHRINK) + (total - first)**2 / (weight - second + SHRINK)
                 - total**2 / (weight + SHRINK))
        least = self.options.least_weight
        gains[(second < least) | (weight - second < least)] = 0.0
        best = gains.reshape(nodes, -1).argmax(axis=1)
        return [(float(gains[number].flat[chosen]), int(chosen) // BINS, int(chosen) % BINS)
                for number, chosen in enumerate(best.tolist())]

    def _split(self, node: int, column: int, code: int) -> None:
        self.feature[node], self.value[node] = column, float(self._thresholds[column][code])
        self.left[node] = len(self.value)
        self.feature += [0, 0]
        self.value += [0.0, 0.0]
        self.left += [0, 0]


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
