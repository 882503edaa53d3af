"""Matrix: what is known of every shape with every candidate, measured or expected.

Slowness is always log(time / best time of the shape). The best time is the least measured one of the shape, so a time
that is only expected never makes a measured one look slow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, MeasuredTask, Task

MISSING = 20.0  # a candidate that is not valid or fails counts as 20 times slower than the best
WORST = math.log(MISSING)  # the largest slowness
SHRINK = 1.0  # number of measured cells that count as much as what was expected of a candidate before


@dataclass(frozen=True, eq=False)
class Matrix:
    """Shapes of one operation, candidates, and what is known of each pair."""

    problems: tuple[Problem, ...]  # (shape,)
    candidates: tuple[Configuration, ...]  # (candidate,)
    seconds: Floats  # (shape, candidate) infinite: it fails or is not valid there; NaN: not measured
    expected: Floats  # (shape, candidate) expected log(time / best time); infinite: not valid; NaN: unknown
    weights: Floats  # (shape,) with the sum 1; 0 for a shape that was not asked for and only teaches the rule

    @property
    def valid(self) -> NDArray[np.bool_]:
        """A mask of the cells whose candidate is in the search space of the shape: (shape, candidate)."""
        return np.asarray(~np.isinf(self.expected))

    @property
    def known(self) -> int:
        """The number of valid cells that were measured, including those that failed."""
        return int((self.valid & ~np.isnan(self.seconds)).sum())

    @property
    def asked(self) -> Matrix:
        """The matrix without the shapes of weight 0."""
        return self.take(np.flatnonzero(self.weights > 0))

    def joined(self, other: Matrix) -> Matrix:
        """The matrix with the rows of another one of the same candidates."""
        return Matrix((*self.problems, *other.problems), self.candidates, np.concatenate([self.seconds, other.seconds]),
                      np.concatenate([self.expected, other.expected]), np.concatenate([self.weights, other.weights]))

    def corrected(self) -> Matrix:
        """The matrix whose expectations of each candidate are corrected by their mean error in its measured cells."""
        differences, importance = self._differences(np.log(self.seconds))
        rows = np.maximum(importance.sum(axis=1), 1e-9)
        offsets = np.zeros(self.seconds.shape[1])
        for _ in range(3):  # levels of the rows and offsets of the candidates in turn
            levels = (importance * (differences - offsets)).sum(axis=1) / rows
            offsets = (importance * (differences - levels[:, None])).sum(axis=0) / (importance.sum(axis=0) + SHRINK)
        return replace(self, expected=self.expected + offsets)

    def _differences(self, logs: Floats) -> tuple[Floats, Floats]:
        """The logarithm of each time minus what was expected, and how much it counts: (shape, candidate).

        Both are 0 where one of the two is unknown.
        """
        both = np.isfinite(logs) & ~np.isnan(self.expected)
        # fast cells count most: trees are most exact there
        importance = np.where(both, np.exp(-2 * np.minimum(np.nan_to_num(self.expected), WORST)), 0.0)
        return np.subtract(logs, self.expected, out=np.zeros(logs.shape), where=both), importance

    def slowness(self, optimistic: bool = False) -> Floats:
        """log(time / best time of the shape) of each cell, from 0 to log(MISSING): (shape, candidate).

        An expected cell is put on the level of the measured cells of its row, and is not faster than the best of these,
        unless `optimistic`. A cell of which nothing is known counts as missing.
        """
        logs = np.log(self.seconds)
        differences, importance = self._differences(logs)
        total = importance.sum(axis=1)
        levels = (importance * differences).sum(axis=1) / np.where(total > 0, total, 1.0)
        # a measured row without an expectation has no level on which others could be expected
        levels[(total == 0) & np.isfinite(logs).any(axis=1)] = np.nan
        times = np.where(np.isnan(logs), self.expected + levels[:, None], logs)
        best = np.where(np.isnan(times), np.inf, times).min(axis=1, initial=np.inf)
        measured = np.where(np.isnan(logs), np.inf, logs).min(axis=1, initial=np.inf)
        if not optimistic:
            best = np.where(np.isfinite(measured), measured, best)
        best[~np.isfinite(best)] = 0.0  # nothing runs: every cell is infinite
        return np.asarray(np.clip(np.nan_to_num(times - best[:, None], nan=WORST, posinf=WORST), 0.0, WORST))

    def take(self, shapes: Numbers | Sequence[int] | None = None,
             candidates: Numbers | Sequence[int] | None = None) -> Matrix:
        """The matrix of some shapes and candidates, given by their indices (None: all); weights sum to 1 again."""
        rows = np.arange(len(self.problems)) if shapes is None else np.asarray(shapes, np.int64)
        columns = np.arange(len(self.candidates)) if candidates is None else np.asarray(candidates, np.int64)
        weights = self.weights[rows]
        return Matrix(tuple(self.problems[row] for row in rows.tolist()),
                      tuple(self.candidates[column] for column in columns.tolist()),
                      self.seconds[np.ix_(rows, columns)], self.expected[np.ix_(rows, columns)],
                      weights / weights.sum())


def matrix_of(measured: Sequence[MeasuredTask], candidates: Sequence[Configuration], weights: Floats,
              expect: Callable[[Task, Numbers], Floats]) -> Matrix:
    """The matrix of tasks and candidates: what was measured, and what `expect` says of valid configurations.

    `expect` returns log(time / best time) of configurations of a task, given by number; NaN where it knows nothing.
    """
    seconds = np.full((len(measured), len(candidates)), np.inf)
    expected = np.full(seconds.shape, np.inf)
    columns: dict[str, list[int]] = {}
    for column, candidate in enumerate(candidates):
        columns.setdefault(candidate.kernel, []).append(column)
    for row, known in enumerate(measured):
        for kernel, indices in columns.items():
            numbers = known.task.numbers(kernel, [dict(candidates[column].settings) for column in indices])
            valid = np.array(indices)[numbers >= 0]
            seconds[row, valid] = known.seconds[numbers[numbers >= 0]]
            expected[row, valid] = expect(known.task, numbers[numbers >= 0])
    return Matrix(tuple(known.problem for known in measured), tuple(candidates), seconds, expected, weights)


def most_helpful(slowness: Floats, weights: Floats, count: int, chosen: Sequence[int] = ()) -> list[int]:
    """Indices of up to `count` candidates, after those `chosen` already, each the one that lowers the mean most.

    The mean is that of the fastest chosen candidate of each shape; `slowness` is (shape, candidate). Candidates that no
    longer help follow in the order of their own mean.
    """
    order = list(chosen)
    best = slowness[:, order].min(axis=1, initial=WORST)
    alone = weights @ slowness
    while len(order) < min(count, slowness.shape[1]):
        means = weights @ np.minimum(best[:, None], slowness) + 1e-9 * alone
        means[order] = np.inf
        order.append(int(np.argmin(means)))
        best = np.minimum(best, slowness[:, order[-1]])
    return order
