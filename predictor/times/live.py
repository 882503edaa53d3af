"""Live: what an evaluation asks for, measured on the spot."""

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
    """Measures what an evaluation asks for; the fastest are run again, interleaved, and that time counts."""

    finalists = 12  # more than any method proposes, so that a method's own best is among them
    rounds = 16  # the least of 16 interleaved samples is right within 3 % even for cache-bound kernels

    def __init__(self, device: Device, progress: Callable[[str], None]) -> None:
        self.runner = Runner(device)
        self.progress = progress

    def __enter__(self) -> LiveMeasure:
        return self

    def __exit__(self, *error: object) -> None:
        self.runner.close()

    def __call__(self, problem: Problem, device: Device, wanted: Sequence[Configuration]) -> list[Measurement]:
        found: dict[Configuration, Measurement] = {}
        for configuration, measurement in self.runner.measure(problem, list(wanted), Options()):
            found[configuration] = measurement
            self.progress(f"{problem.brief()}: measured {len(found)} of {len(wanted)}")
        best = sorted((one for one in found if found[one].status is Status.CORRECT), key=lambda one: found[one].seconds)
        best = best[:self.finalists]
        if best:
            finals = dict(zip(best, self.runner.compare(problem, best, self.rounds, Options()), strict=True))
            floor = min(measurement.seconds for measurement in finals.values())
            for one, measurement in found.items():  # a lucky trial does not beat the best of the finals
                if measurement.seconds < floor < math.inf:
                    found[one] = replace(measurement, samples=(floor,))
            found.update(finals)
        return [found[configuration] for configuration in wanted]
