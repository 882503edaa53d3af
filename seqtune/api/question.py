"""Question: what a candidate answers; it becomes a kernel to build with the candidate's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import check_allowed, kernel

from ..errors import MisuseError

if TYPE_CHECKING:
    from seqtune.tuner.building.chosen import Chosen


class Question(NamedTuple):
    """The problem and device that a candidate answers, and how it came to."""

    problem: Problem
    device: Device
    origin: str  # "the first proposal"
    default_seconds: float | None  # that decide, of the safe default; None if it was not measured with the candidate

    def chosen(self, configuration: Configuration, seconds: float | None) -> Chosen:
        """The kernel to build, with the seconds that decide. Raises MisuseError if it has no code that may run."""
        from seqtune.tuner.building.chosen import Chosen, function_name

        family = kernel(configuration.kernel)
        if family.implementation is None:
            raise MisuseError(f"{family.name} cannot be built: it has no implementation")
        check_allowed(family)
        return Chosen(function_name(self.problem), self.problem, self.device, family, configuration, self.origin,
                      seconds, self.default_seconds)
