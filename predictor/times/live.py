"""LiveMeasure: measurements for an evaluation that does not look up recorded times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from seqtune.data.record import Measurement, Status
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options


class LiveMeasure:
    """A measurer for live evaluations; the fastest configurations are measured again, interleaved."""

    finalists = 12  # more than any method proposes, so that each method's best is among them
    rounds = 16  # the minimum of 16 interleaved samples is within 3 % even for cache-bound kernels

    def __init__(self, device: Device, progress: Callable[[str], None]) -> None:
        self.runner = Runner(device)
        self.progress = progress

    def __enter__(self) -> LiveMeasure:
        return self

    def __exit__(self, *error: object) -> None:
        self.runner.close()

    def __call__(self, problem: Problem, device: Device, wanted: Sequence[Configuration]) -> list[Measurement]:
        measurements: dict[Configuration, Measurement] = {}
        for configuration, measurement in self.runner.measure(problem, list(wanted), Options()):
            measurements[configuration] = measurement
            self.progress(f"{problem.brief()}: measured {len(measurements)} of {len(wanted)}")
        correct = [configuration for configuration, measurement in measurements.items()
                   if measurement.status is Status.CORRECT]
        best = sorted(correct, key=lambda configuration: measurements[configuration].seconds)[:self.finalists]
        if best:
            finals = dict(zip(best, self.runner.compare(problem, best, self.rounds, Options()), strict=True))
            floor = min(measurement.seconds for measurement in finals.values())
            for configuration, measurement in measurements.items():  # a lucky trial must not beat the finals' best
                if measurement.seconds < floor < math.inf:
                    measurements[configuration] = replace(measurement, samples=(floor,))
            measurements.update(finals)
        return [measurements[configuration] for configuration in wanted]
