"""Record: one measurement of one configuration, and everything needed to know what it means.

Statuses use the words of the T4 format, plus `crash`. A failure is a measurement like any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem


class Status(StrEnum):
    """How a measurement ended."""

    CORRECT = "correct"  # built, ran, agreed with the reference, timed
    CONSTRAINTS = "constraints"  # not in its search space
    COMPILE = "compile"  # did not build
    RUNTIME = "runtime"  # the driver or the launch refused
    TIMEOUT = "timeout"  # building or running took too long; the worker was killed
    CORRECTNESS = "correctness"  # wrong numbers, unwritten output, or a write outside its buffer
    CRASH = "crash"  # the worker process died
    CHOSEN = "chosen"  # not measured here: a foreign tuner's choice, which kept no times


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one measurement found. Always returned, never raised."""

    status: Status
    samples: tuple[float, ...] = ()  # seconds of one launch, one entry per timing sample
    error: float | None = None  # max|difference| / max|reference|
    build_seconds: float = 0.0  # 0 where an earlier build served
    message: str = ""  # one line of detail for a failure
    damaged: bool = field(default=False, compare=False)  # it wrote outside its buffers, so nothing else that its
    #                                                      process measures can be trusted; not kept in a journal

    @property
    def seconds(self) -> float:
        """The least sample; infinite where the status is not `correct`."""
        return min(self.samples) if self.status is Status.CORRECT and self.samples else math.inf

    @property
    def spread(self) -> float:
        """Interquartile range over median of the samples; 0 with fewer than two."""
        if len(self.samples) < 2:
            return 0.0
        ordered = sorted(self.samples)

        def quantile(share: float) -> float:
            place = share * (len(ordered) - 1)
            low = int(place)
            high = min(low + 1, len(ordered) - 1)
            return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

        return (quantile(0.75) - quantile(0.25)) / quantile(0.5)

    def to_json(self) -> dict[str, object]:
        """A flat JSON object."""
        return {"status": self.status.value, "samples": list(self.samples), "error": self.error,
                "build_seconds": self.build_seconds, "message": self.message, "damaged": self.damaged}

    @classmethod
    def from_json(cls, found: Mapping[str, object]) -> Measurement:
        """The inverse of `to_json`; for messages between our own processes."""
        samples, error, build = found["samples"], found["error"], found["build_seconds"]
        assert isinstance(samples, list)
        assert isinstance(build, int | float)
        assert error is None or isinstance(error, int | float)
        return cls(Status(str(found["status"])), tuple(float(s) for s in samples),
                   None if error is None else float(error), float(build), str(found["message"]),
                   bool(found["damaged"]))


@dataclass(frozen=True, slots=True)
class Record:
    """Problem + device + kernel + configuration + measurement + provenance."""

    problem: Problem
    device: str  # Device.key
    kernel_version: int
    configuration: Configuration  # names its kernel
    toolchain: str  # Device.toolchain when measured
    measurement: Measurement
    when: float = 0.0  # seconds since 1970
    run: str = ""  # which tuning run or purpose: "exhaustive", "random", "verify", "final"
    host: str = ""
    machine: str = ""  # Device.fingerprint; empty where it was not kept
    session: str = ""  # equal for what was measured beside each other on purpose
    stage: str = ""  # of its session: "alone" or "together" in a verification
    budget: float = 0.0  # seconds that its session was given

    def is_todays(self, toolchain: str, versions: Mapping[str, int]) -> bool:
        """Whether that toolchain made it, of a kernel in the version given by name."""
        return self.toolchain == toolchain and versions.get(self.configuration.kernel) == self.kernel_version

    def may_be_of(self, device: Device) -> bool:
        """Whether that very machine made it, as far as the record says; older records do not."""
        return self.machine in ("", device.fingerprint)

    @property
    def identity(self) -> tuple[str, str, str, int, str, str, str]:
        """What makes two records the same trial: measured once, never twice."""
        return (self.problem.key, self.device, self.configuration.kernel, self.kernel_version,
                self.configuration.key, self.toolchain, self.machine)
