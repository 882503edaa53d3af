"""Stand-in measurer: answers at once, from a formula, so that every step of a GPU day runs without a GPU.

Its answers are no measurements. They carry the mark DRY_RUN wherever they are written, their device is named
`BACKEND:stand-in` and their toolchain `stand-in`, and the commands that train or ship refuse data with the mark.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Generator, Sequence
from dataclasses import replace

from seqtune.data.provenance import DRY_RUN
from seqtune.data.record import Measurement, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.tuner.measuring.timing import Options

__all__ = ["DRY_RUN", "StandInMeasurer", "stand_in_of"]

SAMPLES = 3
FAILURES = 64  # one of so many configurations fails, as some do on every device


def stand_in_of(device: Device) -> Device:
    """The device that a dry run names: the facts of a device, and a name that nobody takes for it."""
    return replace(device, name=f"{device.backend}:stand-in", model=f"stand-in for {device.model}",
                   toolchain="stand-in")


class StandInMeasurer:
    """Answers from a formula: a roofline, a factor for each parameter's value, and noise; the same in every run."""

    def __init__(self, device: Device, pause: float = 0.0) -> None:
        self.device = device
        self._pause = pause  # seconds that an answer takes

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        """Yield each configuration with its answer."""
        for configuration in configurations:
            time.sleep(self._pause)
            yield configuration, self._answer(problem, configuration, SAMPLES)

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        """The answers, with one sample for each round."""
        return [self._answer(problem, configuration, rounds) for configuration in configurations]

    def _answer(self, problem: Problem, configuration: Configuration, samples: int) -> Measurement:
        text = f"{problem.key} {configuration.kernel} {configuration.key}"
        if _uniform(f"fails {text}") < 1 / FAILURES:
            return Measurement(Status.RUNTIME, message="stand-in: one of many configurations fails")
        seconds = self._seconds(problem, configuration)
        return Measurement(Status.CORRECT, tuple(seconds * (1 + 0.02 * _uniform(f"{text} {sample}"))
                                                 for sample in range(samples)), 1e-6)

    def _seconds(self, problem: Problem, configuration: Configuration) -> float:
        rate = 0.5e9 * max(1.0, self.device.peak_gflops)
        sizes = " ".join(f"{name}={int(math.log2(value + 1))}" for name, value in problem
                         if isinstance(value, int))
        factor = sum(0.25 * _uniform(f"{configuration.kernel} {name}={value}")
                     + 0.1 * _uniform(f"{configuration.kernel} {name}={value} {sizes}")
                     for name, value in configuration.settings)
        return 3e-6 + math.exp(factor) * problem.size("flop") / rate


def _uniform(text: str) -> float:
    """A number in [0, 1) that depends on the text alone."""
    return zlib.crc32(text.encode()) / 2**32
