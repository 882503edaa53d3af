"""SafeDefaults: answers for kernels that no shipped checkpoint was trained on, with their safe default."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task

from .candidate import Candidate


class SafeDefaults:
    """The safe default first, then the configurations that differ from it in the fewest parameters; no confidence."""

    backends = ("llvm",)

    def task(self, problem: Problem, device: Device) -> Task:
        """The task of a problem with all kernels that are registered for the device. Raises KernelError."""
        return Task.of(problem, device)

    def check_kernels(self, kernels: Iterable[Kernel]) -> None:
        """Accept any kernels."""

    def on(self, device: Device, kernels: Iterable[Kernel] = ()) -> Self:
        """The same predictor: it answers for all devices."""
        return self

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        """Propose `count` configurations around the default of each task, or all of them where there are fewer."""
        return [[Candidate(task[number]) for number in _around_default(task)[:count]] for task in tasks]


def _around_default(task: Task) -> list[int]:
    """All configurations by their numbers; among equally different ones, the values' order decides."""
    start = task.find(task.default)
    assert start is not None
    order: list[int] = np.argsort(task.differences(start, np.arange(len(task))), kind="stable").tolist()
    return order
