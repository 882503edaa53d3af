"""RecordedMeasurer: a measurer that answers from records, for strategies and reports that need no device.

A recorded configuration gets its recorded measurement, any other the status `runtime` and the message "not recorded".
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence

from seqtune.data.record import COMPARED, VERIFIED, Measurement, Record, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem import Problem

from .timing import Options

COMPARED_RUNS = (*COMPARED, VERIFIED)  # runs that measure configurations in rounds with others

_Measurements = dict[tuple[str, Configuration], Measurement]  # (Problem.key, configuration) -> measurement


class RecordedMeasurer:
    """Answers from the records of one device, of its current toolchain and of these kernels' versions.

    Of several records of a configuration the last one counts. `measure` returns the trial, or the measurement of the
    run `again` if that was faster. `compare` returns measurements of the runs `final`, `contest` and `verify`, which
    compared the configurations in rounds, if all configurations have one; else it returns the same as `measure`.
    """

    def __init__(self, device: Device, records: Iterable[Record], kernels: Sequence[Kernel]) -> None:
        self.device = device
        self.kernels = tuple(kernels)
        versions = {kernel.name: kernel.version for kernel in kernels}
        self._trials: _Measurements = {}
        self._repeats: _Measurements = {}
        for record in records:
            if record.device == device.key and record.is_todays(device.toolchain, versions):
                measurements = self._repeats if record.run in COMPARED_RUNS else self._trials
                key, measurement = (record.problem.key, record.configuration), record.measurement
                if record.run != "again" or key not in measurements or measurement.seconds < measurements[key].seconds:
                    measurements[key] = measurement
        self._problems = {problem for problem, _ in (*self._trials, *self._repeats)}

    def __contains__(self, problem: Problem) -> bool:
        """Whether there is a record of this problem."""
        return problem.key in self._problems

    def has(self, problem: Problem, configuration: Configuration) -> bool:
        """Whether there is a record of this configuration of the problem."""
        key = problem.key, configuration
        return key in self._trials or key in self._repeats

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        """Yield each configuration with its recorded measurement."""
        for configuration in configurations:
            yield configuration, self._find(problem, configuration)

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        """The recorded measurements, in the given order. `rounds` and `options` have no effect."""
        keys = [(problem.key, configuration) for configuration in configurations]
        if all(key in self._repeats for key in keys):
            return [self._repeats[key] for key in keys]
        return [self._find(problem, configuration) for configuration in configurations]

    def _find(self, problem: Problem, configuration: Configuration) -> Measurement:
        key = problem.key, configuration
        missing = Measurement(Status.RUNTIME, message=f"not recorded on {self.device.name}")
        return self._trials.get(key) or self._repeats.get(key) or missing
