"""UntrainedPredictor: what the predictors without a checkpoint share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task


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
