"""A simulated fleet for tests: alike members of a device that does not exist, and the true times of its kernel."""

from __future__ import annotations

import math
import zlib
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import partial

from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.fleet.engine import Member
from seqtune.tuner.measuring.timing import Options
from seqtune.tuner.run.plan import UNLIMITED, Budget, Finals, Plan, TuningOptions
from tests.support.fleet.engine import SimulatedEngine, SimulatedMember
from tests.support.fleet.fault import FaultKind, SimulatedFault

Content = tuple[str, str, str, str, tuple[float, ...]]
TUNING = TuningOptions("random", finals=Finals(count=2))
DEVICE = Device("test:1", "test", "paper", "none", toolchain="t1")
OTHER = replace(DEVICE, l2_bytes=1 << 20)  # the same key, another fingerprint
KERNEL = Kernel("test.fleet", "gemm", ("test",),
                (Parameter("x", tuple(range(40))), Parameter("y", tuple(range(40)))),
                (Constraint.of("x * y < 800", "too large"),), (("x", 0), ("y", 0)),
                solves=(Constraint.of("m < 1000", "m is too large"),))


def problems(count: int) -> list[Problem]:
    """That many problems."""
    return [Problem.make("gemm", m=3, n=4, k=5 + number) for number in range(count)]


def members(count: int, device: Device = DEVICE, host: str = "node") -> list[Member]:
    """That many alike members, each on a host of its own."""
    return [Member(f"{host}{number}/{device.name}", device, f"{host}{number}") for number in range(count)]


def seconds(device: Device, problem: Problem, configuration: Configuration) -> float:
    """The true time: a hash of everything. A thirteenth of the configurations crashes; the default does not."""
    number = zlib.crc32(f"{device.fingerprint} {problem.key} {configuration.key}".encode())
    if number % 13 == 0 and configuration.number("x") + configuration.number("y") > 0:
        return math.inf
    return 1e-3 * (1 + number % 1009 / 500)


def plan_of(problems: Sequence[Problem], budget: Budget = UNLIMITED, options: TuningOptions = TUNING,
            retry_failed: bool = False) -> Plan:
    """A plan for the simulated kernel."""
    return Plan(problems, budget, options, partial(Task.of, kernels=[KERNEL]), retry_failed)


def contents(journal: Journal, run: str | None = None) -> list[Content]:
    """Everything in a journal that does not depend on when and where it was measured, sorted."""
    return sorted(content(record) for record in journal.records(run=run))


def content(record: Record) -> Content:
    """A record without when and where it was measured."""
    return record.problem.key, record.machine, record.run, record.configuration.key, record.measurement.samples


def untrue(records: Sequence[Record], devices: Sequence[Device]) -> list[Record]:
    """The records whose time is not the true one of their device."""
    by_fingerprint = {device.fingerprint: device for device in devices}
    return [record for record in records if record.measurement.seconds != seconds(
        by_fingerprint[record.machine], record.problem, record.configuration)]


class CrampedEngine(SimulatedEngine):
    """Three members without memory for one of the problems."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(members(3), seconds)
        self.problem = problem

    def _next(self, simulated: SimulatedMember) -> None:
        if simulated.batches and simulated.batches[0].problem == self.problem:
            simulated.plan.faults = (SimulatedFault(FaultKind.REFUSING, simulated.member.name, 0.0),)
        super()._next(simulated)
        simulated.plan.faults = ()


class TrueMeasurer:
    """One device of its own that measures the true times, for comparison with a fleet."""

    device = DEVICE

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        for configuration in configurations:
            time = seconds(DEVICE, problem, configuration)
            yield configuration, (Measurement(Status.CORRECT, (time,), 0.0) if math.isfinite(time)
                                  else Measurement(Status.CRASH, message="signal 11"))

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        times = [seconds(DEVICE, problem, configuration) for configuration in configurations]
        return [Measurement(Status.CORRECT, (time, time), 0.0) for time in times]
