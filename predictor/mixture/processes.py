"""Processes: the Gaussian processes of kernels with few measurements, as one expert of the mixture.

The expert has an opinion only if the kernel of every candidate has a process. It proposes nothing, since computing its
opinion of a whole space would take as long as some hundred predictions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from seqtune.errors import CheckpointError
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Floats, MeasuredTask, Task

from ..sequence.declaration import Declaration
from .gaussian_process import ARRAYS, GaussianProcess, fit

EXPERT = "gaussian_process"
PREFIX = "process/"  # of the names of its arrays in mixture.safetensors
MOST_ROWS = 3000  # measured in a whole training: the time of a fit grows with their cube
LARGEST = 1e9  # magnitude of a number in a file, so that no square is infinite


class ProcessFields(BaseModel):
    """What a process has beside its arrays, in seqtune.json."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    kernel: str = Field(max_length=200)
    features: int = Field(ge=1, le=256)  # of the trees' table


@dataclass(frozen=True, eq=False)
class Processes:
    """The processes by the name of their kernel."""

    by_kernel: Mapping[str, GaussianProcess] = field(default_factory=dict)

    @classmethod
    def of(cls, tasks: Sequence[MeasuredTask]) -> Processes:
        """Fit the processes to measured tasks; there are none if more than MOST_ROWS configurations were measured."""
        if sum(int(np.isfinite(measured.seconds).sum()) for measured in tasks) > MOST_ROWS:
            return cls()
        kernels: dict[str, list[tuple[MeasuredTask, SearchSpace, slice]]] = {}
        for measured in tasks:
            for space, part in measured.task.parts():
                if np.isfinite(measured.seconds[part]).any():
                    kernels.setdefault(space.kernel.name, []).append((measured, space, part))
        fitted = {name: fit(parts) for name, parts in kernels.items()}
        return cls({name: process for name, process in fitted.items() if process is not None})

    def opinion(self, task: Task, numbers: Numbers) -> Floats | None:
        """The slowness of configurations (configuration,); None if one is of a kernel without a process.

        Raises CheckpointError for a process of other features.
        """
        parts = [(space, part, own) for space, part in task.parts()
                 if len(own := np.flatnonzero((numbers >= part.start) & (numbers < part.stop)))]
        if not all(space.kernel.name in self.by_kernel for space, _, _ in parts):
            return None
        slowness = np.full(len(numbers), np.nan)
        for space, part, own in parts:
            slowness[own] = self.by_kernel[space.kernel.name].slowness(space, numbers[own] - part.start)
        return slowness if np.isfinite(slowness).all() else None

    @property
    def about(self) -> tuple[ProcessFields, ...]:
        """What `read` needs beside the arrays."""
        return tuple(ProcessFields(kernel=name, features=process.features)
                     for name, process in self.by_kernel.items())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to write to a safetensors file for `read`."""
        return {f"{PREFIX}{number}/{name}": getattr(process, name)
                for number, process in enumerate(self.by_kernel.values()) for name in ARRAYS}

    @classmethod
    def read(cls, about: Sequence[ProcessFields], arrays: Mapping[str, NDArray[Any]],
             kernels: Iterable[Declaration]) -> Processes:
        """The inverse of `about` and `arrays`, which are not trusted; `kernels` are those of the checkpoint.

        Raises CheckpointError.
        """
        if {*arrays} != {f"{PREFIX}{number}/{name}" for number in range(len(about)) for name in ARRAYS}:
            raise CheckpointError("its Gaussian processes do not have the arrays that seqtune.json needs")
        by_kernel = {fields.kernel: GaussianProcess(fields.features, *(arrays[f"{PREFIX}{number}/{name}"]
                                                                       for name in ARRAYS))
                     for number, fields in enumerate(about)}
        if (len(by_kernel) < len(about) or not {*by_kernel} <= {kernel.name for kernel in kernels}
                or not all(map(_is_sound, by_kernel.values()))):
            raise CheckpointError("its Gaussian processes are inconsistent (a shape, a type or a number is out of "
                                  "range)")
        return cls(by_kernel)


def _is_sound(process: GaussianProcess) -> bool:
    """Whether arrays that were read have the types, shapes and ranges that their use needs."""
    arrays = {name: getattr(process, name) for name in ARRAYS}
    if process.rows.ndim != 2 or process.tasks.ndim != 2:
        return False
    (rows, own), (tasks, of_task) = process.rows.shape, process.tasks.shape
    columns = (own + of_task,)
    shapes = {"columns": columns, "centre": columns, "scale": columns, "rows": (rows, own), "tasks": (tasks, of_task),
              "owner": (rows,), "weights": (rows,), "constants": (3,)}
    return bool(
        all(array.shape == shapes[name] and array.dtype == ARRAYS[name] for name, array in arrays.items())
        and 1 <= tasks <= rows <= MOST_ROWS and 1 <= own <= sum(columns) <= process.features
        and 0 <= process.columns.min() <= process.columns.max() < process.features
        and 0 <= process.owner.min() <= process.owner.max() < tasks
        and all((np.abs(array) <= LARGEST).all() for array in arrays.values()))
