"""UntrainedPredictor: what the predictors without a checkpoint share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, Task

from .candidate import Candidate
from .experts.mean import Opinions, ask
from .largest import Excess

if TYPE_CHECKING:
    from .proposing import Evidence
    from .trees.ranker import Ranker


class UntrainedPredictor:
    """A predictor that knows every kernel, and expects no times that measurements could correct."""

    ranker: Ranker | None = None
    state: Mapping[str, NDArray[Any]] = {}  # it has no network

    def task(self, problem: Problem, device: Device) -> Task:
        """The task of a problem with all kernels that are registered for the device. Raises KernelError."""
        return Task.of(problem, device)

    def knows(self, kernels: Iterable[Kernel]) -> bool:
        """Return True for any kernels."""
        return True

    def check_kernels(self, kernels: Iterable[Kernel]) -> None:
        """Accept any kernels."""

    def on(self, device: Device, kernels: Iterable[Kernel] = ()) -> Self:
        """The same predictor: it answers for all devices."""
        return self

    def is_new(self, device: Device) -> bool:
        """Return True for any device: it has learned from none."""
        return True

    def lacks_times(self, kernels: Iterable[Kernel]) -> bool:
        """Return False for any kernels: it has learned no choices."""
        return False

    def lacks_times_on(self, device: Device) -> bool:
        """Return False for any device: it has learned no choices."""
        return False

    def excesses(self, task: Task) -> tuple[Excess, ...]:
        """Return none for any task: it has learned from no problem."""
        return ()

    def expected(self, task: Task, numbers: Numbers) -> Floats:
        """NaN, which means unknown, for every configuration."""
        return np.full(len(numbers), np.nan)

    def opinions(self, task: Task, numbers: Numbers) -> Opinions:
        """Nothing: there is no expert."""
        return ask((), task, numbers)

    def safe_default(self, task: Task, evidence: Evidence | None = None) -> Candidate:
        """The safe default of a task, without a confidence."""
        return Candidate(task.default)
