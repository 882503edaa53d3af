"""Instant: a measurer of llvm's kernels that measures nothing and answers at once."""

from __future__ import annotations

import math
import zlib
from collections.abc import Generator, Sequence
from dataclasses import replace

from seqtune.data.record import Measurement, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.tuner.measuring.timing import Options
from tests.support.devices import device_of

DEVICE = replace(device_of("llvm"), toolchain="t1")


class Instant:
    """Answers with a time that depends on the configuration alone."""

    def __init__(self, device: Device = DEVICE) -> None:
        self.device = device
        self.count = 0  # configurations measured alone

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        for configuration in configurations:
            self.count += 1
            yield configuration, self._time(configuration)

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        return [self._time(configuration) for configuration in configurations]

    def _time(self, configuration: Configuration) -> Measurement:
        return Measurement(Status.CORRECT, (1e-4 * (1 + zlib.crc32(configuration.key.encode()) % 97 / 50),))
