"""Replay: a measurer that answers from records, for strategies and reports that need no device.

What was recorded comes back as it was; what was not has status `runtime` and says so.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence

from seqtune.data.journal import REPEATED
from seqtune.data.record import Measurement, Record, Status
from seqtune.errors import DeviceError
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem import Problem

from .measure import Options

_Known = dict[tuple[str, Configuration], Measurement]  # by Problem.key


class Replay:
    """The records of one device that these kernels' versions and its toolchain made; of two alike the later one counts.

    `measure` answers with the trials. `compare` answers with what was measured again beside others (runs `final` and
    `verify`) where all that it is asked for was, else with the trials.
    """

    def __init__(self, device: Device, records: Iterable[Record], kernels: Sequence[Kernel]) -> None:
        self.device = device
        versions = {kernel.name: kernel.version for kernel in kernels}
        self._trials: _Known = {}
        self._repeats: _Known = {}
        for record in records:
            if (record.device == device.key and record.toolchain == device.toolchain
                    and record.kernel_version == versions.get(record.configuration.kernel)):
                known = self._repeats if record.run in REPEATED else self._trials
                known[record.problem.key, record.configuration] = record.measurement
        self._problems = {problem for problem, _ in (*self._trials, *self._repeats)}

    def __contains__(self, problem: Problem) -> bool:
        """Whether anything is recorded for it."""
        return problem.key in self._problems

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


def recorded_device(devices: Sequence[Device], name: str | None) -> Device:
    """The device of that name, beginning of a name, or key; the only one where none is named. Raises DeviceError."""
    wanted = "" if name is None else name.strip().lower()
    found = [device for device in devices
             if not wanted or f"{device.name.lower()}:".startswith(f"{wanted}:") or device.key.lower() == wanted]
    if len(found) == 1:
        return found[0]
    names = [device.name for device in devices]
    listed = ", ".join(names if len(set(names)) == len(names) else (device.key for device in devices)) or "none"
    said = f"{'several devices are' if found else 'no device'} {name!r:.60}" if name is not None else "name a device"
    raise DeviceError(f"{said}; the data set has {listed}")
