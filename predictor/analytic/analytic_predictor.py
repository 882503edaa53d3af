"""AnalyticPredictor: orders a task's configurations by the analytic model's estimates; it needs no measurement.

It answers for GPUs of which no checkpoint has measurements. Kernels that do not describe their tiles
(`product_tiles.CONTRACT`) have no estimate: their configurations follow those that have one, the default first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from seqtune.kernels.devices.accelerators import BACKENDS
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.cost_models.analytic import estimates
from seqtune.tuner.cost_models.modes import order

from ..candidate import Candidate


class AnalyticPredictor:
    """The predictor without a checkpoint; it has no state."""

    backends = BACKENDS

    def task(self, problem: Problem, device: Device) -> Task:
        """The task of a problem with all kernels that are registered for the device. Raises KernelError."""
        return Task.of(problem, device)

    def check_kernels(self, kernels: Iterable[Kernel]) -> None:
        """Accept any kernels."""

    def on(self, device: Device, kernels: Iterable[Kernel] = ()) -> Self:
        """The same predictor: it answers for all devices."""
        return self

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        """Propose the configurations with the shortest estimated times, distinct, the shortest first.

        The best of other modes (`tuner/cost_models/modes.py`) whose estimates are near follow the first one.
        """
        return [[Candidate(task[number]) for number in order(task, estimates(task), count).tolist()]
                for task in tasks]
