"""Untrained predictors, which need no checkpoint: the analytic model's estimates, and safe defaults."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from seqtune.errors import SeqtuneWarning
from seqtune.kernels.devices.accelerators import BACKENDS
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.cost_models.analytic import estimates
from seqtune.tuner.cost_models.gpu_rates import missing_fact
from seqtune.tuner.cost_models.modes import order

from .candidate import Candidate

if TYPE_CHECKING:
    from .proposing import Evidence


class UntrainedPredictor:
    """A predictor that knows every kernel."""

    note: ClassVar[str]  # what a user should know about its answers

    def task(self, problem: Problem, device: Device) -> Task:
        """The task of a problem with all kernels that are registered for the device. Raises KernelError."""
        return Task.of(problem, device)

    def knows(self, kernels: Iterable[Kernel]) -> bool:
        """Return True for any kernels."""
        return True

    def check_kernels(self, kernels: Iterable[Kernel]) -> None:
        """Accept any kernels."""

    def notes(self, task: Task) -> tuple[str, ...]:
        """That no measurement counts, as the class says."""
        return (self.note,)


class SafeDefaults(UntrainedPredictor):
    """The safe default first, then the configurations that differ from it in the fewest parameters; no confidence."""

    note = ("no shipped checkpoint was trained on kernels of this operation, so a safe default answers; its share of "
            "the best speed is unknown (--verify measures, seqtune tune searches)")
    backends = ("llvm",)

    def propose(self, tasks: Sequence[Task], count: int, evidence: Evidence | None = None) -> list[list[Candidate]]:
        """Propose `count` configurations around the default of each task, or all of them where there are fewer."""
        return [[Candidate(task[number]) for number in _around_default(task)[:count]] for task in tasks]


def _around_default(task: Task) -> list[int]:
    """All configurations by their numbers; among equally different ones, the values' order decides."""
    start = task.find(task.default)
    assert start is not None
    order: list[int] = np.argsort(task.differences(start, np.arange(len(task))), kind="stable").tolist()
    return order


class AnalyticPredictor(UntrainedPredictor):
    """The predictor that estimates times from data sheets, for GPUs where no shipped checkpoint knows a kernel.

    Kernels that do not describe their tiles (`product_tiles.CONTRACT`) have no estimate: their configurations follow
    those that have one, the default first.
    """

    note = "estimated from data sheets by the analytic model; no measurement of this GPU was used"
    backends = BACKENDS

    def propose(self, tasks: Sequence[Task], count: int, evidence: Evidence | None = None) -> list[list[Candidate]]:
        """Propose the configurations with the shortest estimated times, distinct, the shortest first.

        The best of other modes (`tuner/cost_models/modes.py`) whose estimates are near follow the first one.
        """
        for device in {task.device for task in tasks if task.device.backend in self.backends}:
            if (missing := missing_fact(device)) is not None:
                warnings.warn(f"the analytic model has no estimate for {device.name}: {missing} is not known; the "
                              "default comes first", SeqtuneWarning, stacklevel=2)
        return [[Candidate(task[number]) for number in order(task, estimates(task), count).tolist()] for task in tasks]
