"""GaussianProcess: an expert for few data, a smooth function of configuration and problem with one length per feature.

It reads the trees' features. The covariance of two configurations of two problems is that of the configurations, times
a constant and a part that falls with the distance of the problems: what holds for all problems, and what holds for
similar ones. Both parts are exponential in the distance (Matern's with 1/2), so a prediction is continuous but may bend
anywhere. The logarithms of variances and lengths maximise the marginal likelihood, with a normal prior (Rasmussen and
Williams, "Gaussian Processes for Machine Learning", 2006, chapters 2 and 5), on at most FITTED rows; then all rows
count. With a few hundred measurements it is better than boosted trees, which have few leaves then.

The process of a search (`tuner.cost_models.gaussian_process`) is another one: its covariance is a product of tables
over the levels of one problem's parameters, and it is refitted between two measurements, without torch.

Shapes: N rows of training, T tasks of training, M rows asked about, F features of configurations, P of tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import CheckpointError
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Floats, MeasuredTask
from seqtune.tuner.cost_models.features import features, own_features

from ..trees.cost_trees import WORST
from ..trees.feature_table import feature_table
from .distances import KnownPoints

FITTED = 400  # rows from which the lengths are learned
STEPS, RATE = 60, 0.15  # of Adam
SPREAD = 1.5  # standard deviation of the prior of each logarithm
VARIANCES = (-1.0, -1.5, -1.5, -4.0)  # prior means: shared, by task, a task's offset, noise
LENGTH = -0.5  # prior mean of the squared inverse lengths, which are divided by their number
LEAST_NOISE = 1e-6  # variance, without which Cholesky's decomposition may fail
LEAST_DEVIATION = 1e-6  # of a feature that is more than rounding
LARGEST = 1e6  # larger features count as this
AT_ONCE = 1 << 16  # distances: 0.5 MB, which stays in a cache
ARRAYS: Mapping[str, type] = {  # with their types
    "columns": np.int32, "centre": np.float32, "scale": np.float32, "rows": np.float32, "tasks": np.float32,
    "owner": np.int32, "weights": np.float32, "constants": np.float64}


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """The process of one kernel: a logarithm of a feature, less its centre and times its scale, is a coordinate."""

    features: int  # of the trees' table
    columns: NDArray[np.int32]  # (F + P,) of the table: those of configurations, then those of tasks
    centre: NDArray[np.float32]  # (F + P,)
    scale: NDArray[np.float32]  # (F + P,)
    rows: NDArray[np.float32]  # (N, F) coordinates
    tasks: NDArray[np.float32]  # (T, P) coordinates
    owner: NDArray[np.int32]  # (N,) the task of each row
    weights: NDArray[np.float32]  # (N,)
    constants: Floats  # (3,) the mean, and the variances of the shared part and of that by task

    def slowness(self, space: SearchSpace, rows: Numbers) -> Floats:
        """The expected log(time / best time) of rows of a space: (M,). Raises CheckpointError."""
        if not len(rows):
            return np.empty(0)
        table = feature_table(space, rows)
        if table.shape[1] != self.features:
            raise CheckpointError(f"the checkpoint's Gaussian process of {space.kernel.name} reads {self.features} "
                                  f"features, this version computes {table.shape[1]}: train the checkpoint again")
        asked = (logarithms(table, self.columns) - self.centre) * self.scale
        own, task = asked[:, :self.rows.shape[1]], asked[:1, self.rows.shape[1]:]  # (M, F), (1, P)
        shares = self.constants[1] + self.constants[2] * np.exp(-self._known_tasks.distances(task)[0])
        weights, step = shares[self.owner] * self.weights, max(1, AT_ONCE // len(self.rows))
        correlations = (np.exp(-self._known_rows.distances(own[begin:begin + step]))  # (step, N)
                        for begin in range(0, len(rows), step))
        return np.concatenate([self.constants[0] + (near * weights).sum(axis=1) for near in correlations])

    @cached_property
    def _known_rows(self) -> KnownPoints:
        return KnownPoints(self.rows)

    @cached_property
    def _known_tasks(self) -> KnownPoints:
        return KnownPoints(self.tasks)


def logarithms(table: NDArray[np.float32], columns: NDArray[np.int32]) -> Floats:
    """log2(1 + x) of some columns of features (M, feature), with their signs: (M, column)."""
    chosen = np.clip(np.ascontiguousarray(table[:, columns], np.float64), -LARGEST, LARGEST)
    return np.asarray(np.sign(chosen) * np.log2(1 + np.abs(chosen)))


def fit(parts: Sequence[tuple[MeasuredTask, SearchSpace, slice]]) -> GaussianProcess | None:
    """Fit the process of a kernel to its part of some tasks: its space there, and the numbers of that.

    None with fewer than two tasks, or if all configurations have the same features.
    """
    if len(parts) < 2:
        return None
    tables, targets, owners = [], [], []
    for number, (measured, space, part) in enumerate(parts):
        rows = np.flatnonzero(np.isfinite(measured.seconds[part]))
        tables.append(features(space, rows))
        targets.append(np.minimum(np.log(measured.seconds[part][rows] / measured.best), WORST))
        owners.append(np.full(len(rows), number, np.int32))
    row = parts[0][1].at(np.arange(1))
    width, count = own_features(row, row.columns()).shape[1], tables[0].shape[1]
    table = logarithms(np.concatenate(tables), np.arange(count, dtype=np.int32))
    target, owner = np.concatenate(targets), np.concatenate(owners)
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    same = (table == table[first][owner]).all(axis=0)
    varies = table.std(axis=0) > LEAST_DEVIATION
    own, of_task = (np.flatnonzero(chosen) for chosen in (varies & (np.arange(count) < width),
                                                          varies & same & (np.arange(count) >= width)))
    if not len(own):
        return None
    columns = np.concatenate([own, of_task])
    centre = table[:, columns].mean(axis=0)
    deviation = np.concatenate([table[:, own].std(axis=0), table[first][:, of_task].std(axis=0)])
    points = (table[:, columns] - centre) / deviation
    rows, tasks, mean = points[:, :len(own)], points[first, len(own):], float(target.mean())
    sample = np.random.default_rng(0).permutation(len(target))[:FITTED]
    logs = _likeliest(rows[sample], tasks, owner[sample], target[sample] - mean)
    lengths = np.exp(logs[len(VARIANCES):] / 2)
    rows, tasks = rows * lengths[:len(own)], tasks * lengths[len(own):]
    weights = _weights(rows, tasks, owner, target - mean, logs)
    return GaussianProcess(
        count, columns.astype(np.int32), centre.astype(np.float32), (lengths / deviation).astype(np.float32),
        # in the order that a file has: sums over another one round differently
        np.ascontiguousarray(rows, np.float32), np.ascontiguousarray(tasks, np.float32),
        owner, weights.astype(np.float32), np.array([mean, *np.exp(logs[:2])]))


def _likeliest(rows: Floats, tasks: Floats, owner: NDArray[np.int32], target: Floats) -> Floats:
    """The logarithms of the four variances, and of the squared inverse lengths of all features: (4 + F + P,)."""
    import torch

    prior = torch.tensor([*VARIANCES, *(LENGTH - np.log(width) for width in (rows.shape[1], tasks.shape[1])
                                        for _ in range(width))], dtype=torch.float64)
    logs = prior.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([logs], lr=RATE)
    known, values = [torch.from_numpy(points) for points in (rows, tasks)], torch.from_numpy(target)
    for _ in range(STEPS):
        optimizer.zero_grad()
        lengths, own = (logs[len(VARIANCES):] / 2).exp(), rows.shape[1]
        lower = torch.linalg.cholesky(_covariance(known[0] * lengths[:own], known[1] * lengths[own:], owner, logs))
        solved = torch.cholesky_solve(values[:, None], lower)[:, 0]
        loss = values @ solved / 2 + lower.diagonal().log().sum() + (((logs - prior) / SPREAD)**2).sum() / 2
        torch.autograd.backward(loss)
        optimizer.step()
    result: Floats = logs.detach().numpy()
    return result


def _weights(rows: Floats, tasks: Floats, owner: NDArray[np.int32], target: Floats, logs: Floats) -> Floats:
    """The inverse of the covariance, times the targets: (N,)."""
    import torch

    covariance = _covariance(torch.from_numpy(rows), torch.from_numpy(tasks), owner, torch.from_numpy(logs))
    solved: Floats = torch.cholesky_solve(torch.from_numpy(target)[:, None], torch.linalg.cholesky(covariance)
                                          )[:, 0].numpy()
    return solved


def _covariance(rows: Any, tasks: Any, owner: NDArray[np.int32], logs: Any) -> Any:
    """The covariance of rows, whose coordinates are tensors, and the logarithms of the variances in `logs`. (N, N)"""
    import torch

    shared, by_task, offset, noise = logs[:len(VARIANCES)].exp()
    same = torch.from_numpy(owner[:, None] == owner)
    numbers = torch.from_numpy(owner.astype(np.int64))
    alike = _correlation(tasks)[numbers][:, numbers]
    return (_correlation(rows) * (shared + by_task * alike) + offset * same
            + (noise + LEAST_NOISE) * torch.eye(len(rows), dtype=torch.float64))


def _correlation(points: Any) -> Any:
    """The correlations of points, a tensor (point, coordinate), with each other: (point, point)."""
    squares = (points**2).sum(1)
    return (-(squares[:, None] + squares - 2 * points @ points.T).clamp(min=1e-9).sqrt()).exp()
