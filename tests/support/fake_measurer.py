"""A kernel of two parameters, and a measurer with a known answer for it."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Sequence

from seqtune.data.record import Measurement, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.tuner.measuring.timing import Options

DEVICE = Device("test:1", "test", "paper", "none", toolchain="t1")
KERNEL = Kernel("test.k", "gemm", ("test",), (Parameter("x", tuple(range(10))), Parameter("y", tuple(range(10)))),
                (Constraint.of("x * y < 50", "too large"),), (("x", 0), ("y", 0)),
                solves=(Constraint.of("m < 100", "m is too large"),))
PROBLEM = Problem.make("gemm", m=3, n=4, k=5)


class Fake:
    """A measurer with a known answer: best at (4, 6) and, in the finals alone, (4, 5). x = 9 crashes."""

    device = DEVICE

    def __init__(self, pause: float = 0.0, interrupt_at: int = -1) -> None:
        self.measured: list[Configuration] = []
        self.compared: list[list[Configuration]] = []
        self.bests: list[float] = []
        self.pause, self.interrupt_at = pause, interrupt_at

    def time(self, configuration: Configuration, best_y: int) -> Measurement:
        x, y = configuration.number("x"), configuration.number("y")
        if x == 9:
            return Measurement(Status.CRASH)
        return Measurement(Status.CORRECT, (1.0 + (x - 4) ** 2 + (y - best_y) ** 2,))

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        self.bests.append(best)
        for configuration in configurations:
            if len(self.measured) == self.interrupt_at:
                raise KeyboardInterrupt
            self.measured.append(configuration)
            time.sleep(self.pause)
            yield configuration, self.time(configuration, 6)

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        self.compared.append(list(configurations))
        return [self.time(configuration, 5) for configuration in configurations]
