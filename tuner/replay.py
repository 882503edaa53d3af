"""Replay: a measurer that answers from records, for strategies and reports that need no device.

What was recorded comes back as it was; what was not has status `runtime` and says so.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence

from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

from .measure import Options


class Replay:
    """The records of one device; of two for the same trial the later one counts."""

    def __init__(self, device: Device, records: Iterable[Record]) -> None:
        self.device = device
        self._known = {(record.problem.key, record.configuration): record.measurement
                       for record in records if record.device == device.key}

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, trial: tuple[Problem, Configuration]) -> bool:
        return (trial[0].key, trial[1]) in self._known

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        """Each configuration with its recorded measurement."""
        for configuration in configurations:
            yield configuration, self._find(problem, configuration)

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        """The recorded measurements."""
        return [self._find(problem, configuration) for configuration in configurations]

    def _find(self, problem: Problem, configuration: Configuration) -> Measurement:
        missing = Measurement(Status.RUNTIME, message=f"not recorded on {self.device.name}")
        return self._known.get((problem.key, configuration), missing)
