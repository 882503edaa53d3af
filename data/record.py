"""Record: one measurement of one configuration, with everything needed to interpret it.

Statuses use the words of the T4 format, plus `crash`. A failure is a measurement like any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from seqtune.errors import LONGEST_MESSAGE, FormatError, one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage

VERIFIED = "verify"  # Record.run of a verification
COMPARED = ("final", "contest")  # runs that measure configurations together, in interleaved rounds
# Record.stage of a verification: a configuration timed alone in its first build, so with a hopeless time, alone in a
# second build and still hopeless, or in rounds with the default, newly built in each batch.
ALONE, HOPELESS, REBUILT, TOGETHER = "alone", "hopeless", "rebuilt", "together"


class Status(StrEnum):
    """The outcome of a measurement."""

    CORRECT = "correct"  # built, ran, agreed with the reference, timed
    CONSTRAINTS = "constraints"  # not in its search space
    COMPILE = "compile"  # did not build
    RUNTIME = "runtime"  # the driver or the launch refused
    TIMEOUT = "timeout"  # building or running took too long; the worker was killed
    CORRECTNESS = "correctness"  # wrong numbers, unwritten output, or a write outside its buffers
    CRASH = "crash"  # the worker process died
    CHOSEN = "chosen"  # not measured here: the choice of a foreign tuner that stored no times


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result of one measurement. It is always returned, never raised."""

    status: Status
    samples: tuple[float, ...] = ()  # seconds of one launch, one entry per timing sample
    error: float | None = None  # max|difference| / max|reference|; of a declared operation max(|difference| / size)
    build_seconds: float = 0.0  # 0 if an earlier build was reused; of a kernel compiled ahead, to read the cache
    message: str = ""  # one line of detail for a failure
    damaged: bool = field(default=False, compare=False)  # the kernel wrote outside its buffers: no later measurement of
    #                                                      its process can be trusted; not stored in journals
    resources: ResourceUsage | None = None  # of the built kernel; None without one, or if the backend cannot tell
    disturbed: int = 0  # samples during which threads waited for a CPU or the CPU was slow, and that could not be
    #                     repeated undisturbed

    @property
    def seconds(self) -> float:
        """The shortest sample; infinite if the status is not `correct`."""
        return min(self.samples) if self.status is Status.CORRECT and self.samples else math.inf

    @property
    def spread(self) -> float:
        """The interquartile range divided by the median of the samples; 0 with fewer than two samples."""
        if len(self.samples) < 2:
            return 0.0
        ordered = sorted(self.samples)

        def quantile(share: float) -> float:
            position = share * (len(ordered) - 1)
            low = int(position)
            high = min(low + 1, len(ordered) - 1)
            return ordered[low] + (ordered[high] - ordered[low]) * (position - low)

        median = quantile(0.5)
        return (quantile(0.75) - quantile(0.25)) / median if median else 0.0  # a clock may not resolve a short launch

    def to_json(self) -> dict[str, object]:
        """The measurement as a flat JSON object."""
        return {"status": self.status.value, "samples": list(self.samples), "error": self.error,
                "build_seconds": self.build_seconds, "message": self.message, "damaged": self.damaged,
                "resources": None if self.resources is None else self.resources.to_json(),
                "disturbed": self.disturbed}

    @classmethod
    def from_json(cls, content: Mapping[str, object]) -> Measurement:
        """The inverse of `to_json`, for messages between processes of this package.

        Raises FormatError: a worker shares its process with kernels, which may have sent the message.
        """
        samples, error, build, text, damaged, resources, disturbed = map(content.get, (
            "samples", "error", "build_seconds", "message", "damaged", "resources", "disturbed"))
        try:
            if not (isinstance(disturbed, int) and 0 <= disturbed < 1 << 53  # fits into a journal's column
                    and isinstance(samples, list) and isinstance(text, str) and isinstance(damaged, bool)
                    and isinstance(build, int | float) and 0 <= build < math.inf
                    and all(isinstance(sample, int | float) and 0 <= sample < math.inf for sample in samples)
                    and (error is None or isinstance(error, int | float))):
                raise FormatError(f"not a measurement: {dict(content)!r:.120}")
            return cls(Status(str(content.get("status"))), tuple(map(float, samples)),
                       None if error is None else float(error), float(build), one_line(text, LONGEST_MESSAGE), damaged,
                       None if resources is None else ResourceUsage.from_json(resources), disturbed)
        except (ValueError, OverflowError) as fault:
            raise FormatError(f"not a measurement: {one_line(fault, 120)}") from None


@dataclass(frozen=True, slots=True)
class Record:
    """A measurement with its problem, device, kernel, configuration and provenance."""

    problem: Problem
    device: str  # Device.key
    kernel_version: int
    configuration: Configuration  # names its kernel
    toolchain: str  # Device.toolchain when measured
    measurement: Measurement
    when: float = 0.0  # seconds since 1970
    run: str = ""  # the strategy or purpose of the run: "exhaustive", "random", "verify", "final", "contest"
    host: str = ""
    machine: str = ""  # Device.fingerprint; empty if it was not recorded
    session: str = ""  # equal for records that were measured in one verification
    stage: str = ""  # of its session: ALONE, HOPELESS, REBUILT or TOGETHER in a verification
    budget: float = 0.0  # of its session, seconds
    loaded: bool = False  # whether other work used much of the machine during the session

    def is_todays(self, toolchain: str, versions: Mapping[str, int]) -> bool:
        """Whether the record was made with this toolchain and with today's version of its kernel.

        `versions` are the versions of the kernels by name.
        """
        return self.toolchain == toolchain and versions.get(self.configuration.kernel) == self.kernel_version

    def may_be_of(self, device: Device) -> bool:
        """Whether the record may be of this machine: its fingerprint is the same, or missing as in older records."""
        return self.machine in ("", device.fingerprint)

    @property
    def rests_on_one_build(self) -> bool:
        """Whether it is the time of a configuration that a verification dropped after a single build.

        No model learns from such a time: an unlucky build or another process may be the cause.
        """
        return (self.run == VERIFIED and self.stage in (ALONE, HOPELESS)
                and self.measurement.status is Status.CORRECT)

    @property
    def identity(self) -> tuple[str, str, str, int, str, str, str]:
        """The key of a trial: two records with equal keys are the same trial, which is measured only once."""
        return (self.problem.key, self.device, self.configuration.kernel, self.kernel_version,
                self.configuration.key, self.toolchain, self.machine)
