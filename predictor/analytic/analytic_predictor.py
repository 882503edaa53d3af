"""AnalyticPredictor: orders a task's configurations by the analytic model's estimates; it needs no measurement.

It answers for GPUs of which no checkpoint has measurements. Kernels that do not describe their tiles
(`product_tiles.CONTRACT`) have no estimate: their configurations follow those that have one, the default first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from seqtune.kernels.accelerators import BACKENDS
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, Task
from seqtune.tuner.cost_models.analytic import estimates

from ..candidate import Candidate


class AnalyticPredictor:
    """The predictor without a checkpoint; it has no state."""

    backends = BACKENDS

    def task(self, problem: Problem, device: Device) -> Task:
        """The task of a problem with all kernels that are registered for the device. Raises KernelError."""
        return Task.of(problem, device)

    def check_kernels(self, kernels: Iterable[Kernel]) -> None:
        """Accept any kernels."""

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        """Propose the configurations with the shortest estimated times, distinct, the shortest first."""
        return [[Candidate(task[number]) for number in order(task, estimates(task), count).tolist()]
                for task in tasks]


def order(task: Task, seconds: Floats, count: int) -> Numbers:
    """The first `count` numbers of a task by estimated seconds (number,), then those without an estimate.

    Equal estimates are ordered by number; without an estimate (nan), the default comes first.
    """
    known = np.isfinite(seconds)
    numbers = np.argsort(np.where(known, seconds, np.inf), kind="stable")[:max(count, 0)]
    if known[numbers].all():
        return numbers
    rest = np.flatnonzero(~known)
    default = task.number(task.default)
    rest = np.concatenate([rest[rest == default], rest[rest != default]])
    return np.concatenate([numbers[known[numbers]], rest])[:count]
