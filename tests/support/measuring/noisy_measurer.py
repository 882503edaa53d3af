"""A measurer with noise whose true times are known."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence

import numpy as np

from seqtune.data.record import Measurement, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.tuner.measuring.timing import Options
from seqtune.tuner.measuring.verification import Verdict, verify


def choice(number: int) -> Configuration:
    return Configuration.of("fake", {"number": number})


DEFAULT = choice(0)
PROBLEM = Problem.make("gemm", m=8, n=8, k=8)


class NoisyMeasurer:
    """Times = truth x log-normal noise x rare large outliers x a slow drift that all share."""

    device = Device("fake", "fake", "fake", "fake")

    def __init__(self, truth: Mapping[Configuration, float], seed: int,
                 failing: Mapping[Configuration, Status] | None = None) -> None:
        self.truth, self.failing = truth, failing or {}
        self.generator = np.random.default_rng(seed)
        self.failing_later: dict[Configuration, Measurement] = {}
        self.rounds = 0
        self.compared: list[Configuration] = []
        self.order_seeds: list[int] = []

    def _sample(self, configuration: Configuration, drift: float) -> float:
        noise = float(np.exp(self.generator.normal(0, 0.03)))
        outlier = 5.0 if self.generator.random() < 0.05 else 1.0
        return self.truth[configuration] * noise * outlier * drift

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        for configuration in configurations:
            if configuration in self.failing:
                yield configuration, Measurement(self.failing[configuration], message="planted")
            else:
                samples = tuple(self._sample(configuration, 1.0) for _ in range(10))
                yield configuration, Measurement(Status.CORRECT, samples, error=1e-7)

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        self.compared += configurations
        self.order_seeds.append(options.order_seed)
        self.rounds = max(self.rounds, rounds)
        samples: dict[Configuration, list[float]] = {configuration: [] for configuration in configurations}
        for turn in range(min(rounds, 12)):
            for configuration in configurations:
                samples[configuration].append(self._sample(configuration, 1 + turn / 20))
        return [self.failing_later.get(configuration, Measurement(Status.CORRECT, tuple(times)))
                for configuration, times in samples.items()]


class SlowMeasurer(NoisyMeasurer):
    """Each configuration alone takes `each` seconds to measure; `now` is the clock."""

    def __init__(self, truth: Mapping[Configuration, float], each: float,
                 failing: Mapping[Configuration, Status] | None = None) -> None:
        super().__init__(truth, 0, failing)
        self.each, self.now = each, 0.0

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        for measured in super().measure(problem, configurations, options, best):
            self.now += self.each
            yield measured


def run(truth: Sequence[float], seed: int = 0, failing: Mapping[int, Status] | None = None) -> Verdict:
    """Candidate i + 1 takes truth[i + 1] seconds; the default takes truth[0]."""
    times = {choice(number): time for number, time in enumerate(truth)}
    measurer = NoisyMeasurer(times, seed, {choice(number): status for number, status in (failing or {}).items()})
    return verify(measurer, PROBLEM, [choice(number) for number in range(1, len(truth))], DEFAULT, seconds=600.0)
