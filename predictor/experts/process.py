"""Processes: an expert for few data, a Gaussian process for each kernel, smooth in the configuration and the problem.

A process reads the trees' features; each coordinate is a feature's logarithm in units of its standard deviation. The
covariance of two configurations of two problems is that of the configurations, times a constant and a part that falls
with the distance of the problems: what holds for all problems, and what holds for similar ones. Both fall
exponentially with the distance (Matern's with 1/2), so a prediction is continuous but may bend anywhere. Variances and
lengths are constants (Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, chapter 2): learning
them from the data gains nothing that could be measured. With a few hundred measurements such a process knows what
boosted trees, which have few leaves then, do not: as a third opinion it raises the share of first proposals by 0.006
(docs/results/index.md).

The process of a search (`tuner.cost_models.gaussian_process`) is another one: its covariance is a product of tables
over the levels of one problem's parameters.

Shapes: N rows of training, T tasks of training, M rows asked about, F features of configurations, P of tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from seqtune.errors import CheckpointError
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Floats, MeasuredTask, Task
from seqtune.tuner.cost_models.features import feature_table, own_features

from ..trees.forest import WORST

MOST_ROWS = 3000  # measured in a whole training: the time of a fit grows with their cube
SHARED, BY_TASK, OFFSET, NOISE = 0.37, 0.22, 0.22, 0.018  # variances: of all tasks, by task, a task's offset, noise
LENGTH = 1.65  # squared distance of a standard deviation in all coordinates is its inverse
LEAST_DEVIATION = 1e-6  # of a feature that is more than rounding
LARGEST_FEATURE = 1e6  # larger features count as this
LARGEST = 1e9  # magnitude of a number in a file, so that no square is infinite
AT_ONCE = 1 << 18  # distances that are computed together: 2 MB
ARRAYS: Mapping[str, type] = {  # with their types
    "columns": np.int32, "centre": np.float32, "scale": np.float32, "rows": np.float32, "tasks": np.float32,
    "owner": np.int32, "weights": np.float32, "constants": np.float64}


class ProcessFields(BaseModel):
    """The fields of a process in seqtune.json, beside its arrays."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    kernel: str = Field(max_length=200)
    features: int = Field(ge=1, le=256)  # of the trees' table


@dataclass(frozen=True, eq=False)
class Process:
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

    @classmethod
    def of(cls, parts: Sequence[tuple[MeasuredTask, SearchSpace, slice]]) -> Process | None:
        """Fit the process of a kernel to its part of some tasks: its space there, and the numbers of that.

        None with fewer than two tasks, or if all configurations have the same features.
        """
        if len(parts) < 2:
            return None
        tables, targets, owners = [], [], []
        for number, (measured, space, part) in enumerate(parts):
            rows = np.flatnonzero(np.isfinite(measured.seconds[part]))
            tables.append(feature_table(space, rows))
            targets.append(np.minimum(np.log(measured.seconds[part][rows] / measured.best), WORST))
            owners.append(np.full(len(rows), number, np.int32))
        row = parts[0][1].at(np.arange(1))
        width, count = own_features(row, row.columns()).shape[1], tables[0].shape[1]
        table = _logarithms(np.concatenate(tables), np.arange(count, dtype=np.int32))
        target, owner = np.concatenate(targets), np.concatenate(owners)
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        of_task = (table == table[first][owner]).all(axis=0) & (np.arange(count) >= width)
        varies = table.std(axis=0) > LEAST_DEVIATION
        own, shared = np.flatnonzero(varies & (np.arange(count) < width)), np.flatnonzero(varies & of_task)
        if not len(own):
            return None
        columns = np.concatenate([own, shared])
        centre = table[:, columns].mean(axis=0)
        deviation = np.concatenate([table[:, own].std(axis=0), table[first][:, shared].std(axis=0)])
        sizes = np.array([len(own)] * len(own) + [len(shared)] * len(shared))
        scale = (1 / (deviation * np.sqrt(LENGTH * sizes))).astype(np.float32)
        points = ((table[:, columns] - centre.astype(np.float32)) * scale).astype(np.float32)
        known, tasks = np.ascontiguousarray(points[:, :len(own)]), np.ascontiguousarray(points[first, len(own):])
        mean = float(target.mean())
        covariance = _near(known, known) * (SHARED + BY_TASK * _near(tasks, tasks)[np.ix_(owner, owner)])
        covariance += OFFSET * (owner[:, None] == owner) + NOISE * np.eye(len(owner))
        weights = np.linalg.solve(covariance, target - mean)
        return cls(count, columns.astype(np.int32), centre.astype(np.float32), scale, known, tasks, owner,
                   weights.astype(np.float32), np.array([mean, SHARED, BY_TASK]))

    def slowness(self, space: SearchSpace, rows: Numbers) -> Floats:
        """The expected log(time / best time) of rows of a space: (M,). Raises CheckpointError."""
        if not len(rows):
            return np.empty(0)
        table = feature_table(space, rows)
        if table.shape[1] != self.features:
            raise CheckpointError(f"the checkpoint's Gaussian process of {space.kernel.name} reads {self.features} "
                                  f"features, this version computes {table.shape[1]}: train the checkpoint again")
        asked = (_logarithms(table, self.columns) - self.centre) * self.scale
        own, task = asked[:, :self.rows.shape[1]], asked[:1, self.rows.shape[1]:]  # (M, F), (1, P)
        weights = (self.constants[1] + self.constants[2] * _near(task, self.tasks)[0])[self.owner] * self.weights
        step = max(1, AT_ONCE // len(self.rows))
        return np.concatenate([self.constants[0] + (_near(own[begin:begin + step], self.rows) * weights).sum(axis=1)
                               for begin in range(0, len(rows), step)])

    def is_sound(self) -> bool:
        """Whether arrays that were read have the types, shapes and ranges that their use needs."""
        arrays = {name: getattr(self, name) for name in ARRAYS}
        if self.rows.ndim != 2 or self.tasks.ndim != 2:
            return False
        (rows, own), (tasks, of_task) = self.rows.shape, self.tasks.shape
        columns = (own + of_task,)
        shapes = {"columns": columns, "centre": columns, "scale": columns, "rows": (rows, own),
                  "tasks": (tasks, of_task), "owner": (rows,), "weights": (rows,), "constants": (3,)}
        return bool(
            all(array.shape == shapes[name] and array.dtype == ARRAYS[name] for name, array in arrays.items())
            and 1 <= tasks <= rows <= MOST_ROWS and 1 <= own <= sum(columns) <= self.features
            and 0 <= self.columns.min() <= self.columns.max() < self.features
            and 0 <= self.owner.min() <= self.owner.max() < tasks
            and all((np.abs(array) <= LARGEST).all() for array in arrays.values()))


@dataclass(frozen=True, eq=False)
class Processes:
    """The processes by the name of their kernel, as one expert: it knows only kernels that have one."""

    name: ClassVar[str] = "process"
    is_relative: ClassVar[bool] = False

    by_kernel: Mapping[str, Process] = field(default_factory=dict)

    @classmethod
    def of(cls, tasks: Iterable[object]) -> Processes | None:
        """Fit the processes to the measured ones of some tasks; None if more than MOST_ROWS configurations ran."""
        measured = [task for task in tasks if isinstance(task, MeasuredTask)]
        if sum(int(np.isfinite(task.seconds).sum()) for task in measured) > MOST_ROWS:
            return None
        kernels: dict[str, list[tuple[MeasuredTask, SearchSpace, slice]]] = {}
        for task in measured:
            for space, part in task.task.parts():
                if np.isfinite(task.seconds[part]).any():
                    kernels.setdefault(space.kernel.name, []).append((task, space, part))
        fitted = {name: process for name, parts in kernels.items() if (process := Process.of(parts)) is not None}
        return cls(fitted) if fitted else None

    def opinion(self, task: Task, numbers: Numbers) -> Floats | None:
        """The slowness, with one member, as an `Expert` gives it; None if a configuration's kernel has no process.

        Raises CheckpointError for a process of other features.
        """
        slowness = np.full((len(numbers), 1), np.nan)
        for space, own, rows in task.by_space(numbers):
            if space.kernel.name not in self.by_kernel:
                return None
            slowness[own, 0] = self.by_kernel[space.kernel.name].slowness(space, rows)
        return slowness if np.isfinite(slowness).all() else None

    @property
    def about(self) -> tuple[ProcessFields, ...]:
        """The fields that `read` needs beside the arrays."""
        return tuple(ProcessFields(kernel=name, features=process.features)
                     for name, process in self.by_kernel.items())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to write to a safetensors file for `read`."""
        return {f"{number}/{name}": getattr(process, name)
                for number, process in enumerate(self.by_kernel.values()) for name in ARRAYS}

    @classmethod
    def read(cls, about: Sequence[ProcessFields], arrays: Mapping[str, NDArray[Any]],
             kernels: Iterable[str]) -> Processes:
        """The inverse of `about` and `arrays`, which are not trusted; `kernels` names those of the checkpoint.

        Raises CheckpointError.
        """
        if {*arrays} != {f"{number}/{name}" for number in range(len(about)) for name in ARRAYS}:
            raise CheckpointError("its Gaussian processes do not have the arrays that seqtune.json needs")
        by_kernel = {fields.kernel: Process(fields.features, *(arrays[f"{number}/{name}"] for name in ARRAYS))
                     for number, fields in enumerate(about)}
        if (len(by_kernel) < len(about) or not {*by_kernel} <= {*kernels}
                or not all(process.is_sound() for process in by_kernel.values())):
            raise CheckpointError("its Gaussian processes are inconsistent (a shape, a type or a number is out of "
                                  "range)")
        return cls(by_kernel)


def _logarithms(table: NDArray[np.float32], columns: NDArray[np.int32]) -> Floats:
    """log2(1 + x) of some columns of features (M, feature), with their signs: (M, column)."""
    chosen = np.clip(np.ascontiguousarray(table[:, columns], np.float64), -LARGEST_FEATURE, LARGEST_FEATURE)
    return np.asarray(np.sign(chosen) * np.log2(1 + np.abs(chosen)))


def _near(points: NDArray[Any], others: NDArray[Any]) -> Floats:
    """exp(-distance) of points (M, coordinate) from others (N, coordinate): (M, N).

    The squares are added in the order of the coordinates, so that no number depends on other points or on a BLAS.
    """
    squares = np.zeros((len(points), len(others)))
    for column, other in zip(points.T, others.T, strict=True):
        squares += np.subtract.outer(column.astype(np.float64), other.astype(np.float64))**2
    return np.exp(-np.sqrt(squares))
