"""Observations: measured configurations of several problems, with the times that a model expects of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, MeasuredTask, Task
from seqtune.tuner.cost_models.features import features

from ..trees.forest import WORST
from ..trees.ranker import Ranker

MAX_ROWS = 800  # measurements that are fitted, so that a fit takes a fraction of a second
LEAST_ROWS = 20  # of one problem that are kept where there are many problems

Expected = Callable[[Task, Numbers], Floats]  # log(time / best) of configurations that a model predicts


@dataclass(frozen=True, slots=True, eq=False)
class Observations:
    """Measured configurations of several problems."""

    tables: Mapping[str, NDArray[np.float32]]  # by kernel: the ranker's features, (row of the kernel, feature)
    rows: Mapping[str, Numbers]  # by kernel: the indices of these rows in the following arrays
    problem: Numbers  # (row,) number of the problem
    expected: Floats  # (row,) log(time / best) by the model
    observed: Floats  # (row,) log(time / best measured time of the problem)

    def __len__(self) -> int:
        return len(self.expected)

    def problems(self) -> list[Numbers]:
        """The rows of each problem."""
        return [np.flatnonzero(self.problem == number) for number in np.unique(self.problem)]

    @property
    def weights(self) -> Floats:
        """How much each row counts, (row,): slow configurations matter less."""
        return np.asarray(np.exp(-self.observed))

    @property
    def errors(self) -> Floats:
        """The observed minus the expected log times, (row,), with a mean of 0 in each problem.

        The best time of a problem, to which log times are relative, is not known, and a constant changes no order.
        """
        return self.centred(self.observed - self.expected)

    def centred(self, values: Floats) -> Floats:
        """The values less their weighted mean in each problem, (row,)."""
        return np.asarray(values - self.means(values)[self.problem])

    def means(self, values: Floats) -> Floats:
        """The weighted mean of the values of each problem, by its number."""
        sums, weights = np.bincount(self.problem, self.weights * values), np.bincount(self.problem, self.weights)
        return np.asarray(sums / np.where(weights > 0, weights, 1.0))


def observe(ranker: Ranker, measured: Sequence[MeasuredTask], expected: Expected | None = None) -> Observations:
    """The observations of at most MAX_ROWS measurements that ran: of each problem the fastest and some of all others.

    `expected` is what the whole model expects (None: what the ranker does). Kernels without trees are left out, and so
    are problems beyond the first MAX_ROWS / LEAST_ROWS.
    """
    tasks = [task for task in measured if np.isfinite(task.seconds).sum() > 1][:MAX_ROWS // LEAST_ROWS]
    count = MAX_ROWS // max(1, len(tasks))
    tables: dict[str, list[NDArray[np.float32]]] = {}
    rows: dict[str, list[Numbers]] = {}
    problem, logs, observed = [np.zeros(0, np.int64)], [np.zeros(0)], [np.zeros(0)]
    begin = 0
    for index, task in enumerate(tasks):
        numbers = spread_rows(task.seconds, count)
        kept = np.zeros(len(numbers), np.bool_)
        parts = []
        for space, own, own_rows in task.task.by_space(numbers):
            if space.kernel.name in ranker.forests:
                kept[own] = True
                parts.append((space, own, own_rows))
        position = begin - 1 + np.cumsum(kept)
        for space, own, own_rows in parts:
            tables.setdefault(space.kernel.name, []).append(features(space, own_rows, ranker.listed))
            rows.setdefault(space.kernel.name, []).append(position[own])
        numbers = numbers[kept]
        if len(numbers):
            predicted = (expected or ranker.slowness)(task.task, numbers)
            problem.append(np.full(len(numbers), index))
            logs.append(np.minimum(predicted, WORST))
            observed.append(np.minimum(np.log(task.seconds[numbers] / task.best), WORST))
            begin += len(numbers)
    return Observations({name: np.concatenate(parts) for name, parts in tables.items()},
                        {name: np.concatenate(parts) for name, parts in rows.items()},
                        np.concatenate(problem), np.concatenate(logs), np.concatenate(observed))


def spread_rows(seconds: Floats, count: int) -> Numbers:
    """The numbers of at most `count` measurements that ran: half of them the fastest, half spread over the others."""
    ran = np.flatnonzero(np.isfinite(seconds))
    ran = ran[np.argsort(seconds[ran], kind="stable")]
    if len(ran) <= count:
        return ran
    fastest = count // 2
    rest = np.linspace(fastest, len(ran) - 1, count - fastest).astype(np.int64)
    return np.asarray(ran[np.concatenate([np.arange(fastest), rest])])
