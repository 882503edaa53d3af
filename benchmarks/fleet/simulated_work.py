"""The work of a simulated fleet: a kernel, a device that does not exist, and the true times of every configuration."""

from __future__ import annotations

import math
import zlib
from dataclasses import replace

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.tuner.fleet.member import Member

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
