"""RecordedMeasurer: a measurer that answers from records, for strategies and reports that need no device.

What was recorded comes back as it was; what was not has status `runtime` and says so.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence

from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem import Problem

from .timing import Options

BESIDE_OTHERS = ("final", "verify")  # runs

_Known = dict[tuple[str, Configuration], Measurement]  # by Problem.key


class RecordedMeasurer:
    """The records of one device that these kernels' versions and its toolchain made; of two alike the later one counts.

    `measure` answers with the trials, or with what was measured `again` alone where that was faster. `compare` answers
    with what was measured beside others (runs `final` and `verify`) where all that it is asked for was, else as well.
    """

    def __init__(self, device: Device, records: Iterable[Record], kernels: Sequence[Kernel]) -> None:
        self.device = device
        self.kernels = tuple(kernels)
        versions = {kernel.name: kernel.version for kernel in kernels}
        self._trials: _Known = {}
        self._repeats: _Known = {}
        for record in records:
            if record.device == device.key and record.is_todays(device.toolchain, versions):
                known = self._repeats if record.run in BESIDE_OTHERS else self._trials
                place, measurement = (record.problem.key, record.configuration), record.measurement
                if record.run != "again" or place not in known or measurement.seconds < known[place].seconds:
                    known[place] = measurement
        self._problems = {problem for problem, _ in (*self._trials, *self._repeats)}

    def __contains__(self, problem: Problem) -> bool:
        """Whether anything is recorded for it."""
        return problem.key in self._problems

    def has(self, problem: Problem, configuration: Configuration) -> bool:
        """Whether that configuration is recorded for it."""
        asked = problem.key, configuration
        return asked in self._trials or asked in self._repeats

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        """Each configuration with its recorded measurement."""
        for configuration in configurations:
            yield configuration, self._find(problem, configuration)

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        """The recorded measurements."""
        asked = [(problem.key, configuration) for configuration in configurations]
        if all(one in self._repeats for one in asked):
            return [self._repeats[one] for one in asked]
        return [self._find(problem, configuration) for configuration in configurations]

    def _find(self, problem: Problem, configuration: Configuration) -> Measurement:
        asked = problem.key, configuration
        missing = Measurement(Status.RUNTIME, message=f"not recorded on {self.device.name}")
        return self._trials.get(asked) or self._repeats.get(asked) or missing
