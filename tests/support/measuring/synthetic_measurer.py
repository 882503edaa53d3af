"""SyntheticMeasurer: measures the synthetic kernel by its formula, and ends as a test wants it to."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from functools import cache

import numpy as np

from seqtune.data.record import Measurement, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.measuring.timing import Options
from tests.support.synthetic import DIRECT, WIDE, seconds


class Killed(BaseException):
    """The process ends here, as by SIGKILL: nothing handles it."""


@cache
def _times(problem: Problem, device: Device) -> tuple[SearchSpace, np.ndarray]:
    space = SearchSpace(DIRECT, problem, device)
    return space, seconds(space)


def true_seconds(problem: Problem, configuration: Configuration, device: Device = WIDE) -> float:
    """The time of a configuration without noise beyond the formula's; infinite where it fails."""
    space, times = _times(problem, device)
    return float(times[space.row(configuration)])


class SyntheticMeasurer:
    """Answers at once. After `most` configurations measured alone it raises `end`."""

    def __init__(self, most: float = math.inf, end: BaseException | None = None) -> None:
        self.device, self.most, self.end = WIDE, most, end or KeyboardInterrupt()
        self.alone: list[tuple[Problem, Configuration]] = []
        self.together: list[tuple[Problem, tuple[Configuration, ...]]] = []

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        for configuration in configurations:
            if len(self.alone) >= self.most:
                raise self.end
            self.alone.append((problem, configuration))
            yield configuration, self._measurement(problem, configuration)

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        self.together.append((problem, tuple(configurations)))
        return [self._measurement(problem, configuration) for configuration in configurations]

    def _measurement(self, problem: Problem, configuration: Configuration) -> Measurement:
        time = true_seconds(problem, configuration)
        return Measurement(Status.CORRECT, (time, 1.01 * time)) if math.isfinite(time) else Measurement(Status.COMPILE)
