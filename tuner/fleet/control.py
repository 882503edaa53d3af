"""Control: a fixed benchmark, run regularly, that detects a member whose times drift from its own or its group's.

It is no comparison (`measuring.comparison`): it asks whether one kernel takes as long as a minute ago, yesterday, or on
another machine. A test can show that two times differ, not that they agree. Therefore a bound on the ratio decides.

The control is the safe default of a fixed problem. A member opens with three of them; their median is its reference.
A block of answers counts only if the control after it agrees with the reference, and with the median of the references
of the members that are alike. The finals of a fleet's search are a comparison (see `fleet.batch`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

from ..run.plan import Plan

PROBE = (("m", 256), ("n", 256), ("k", 256))  # 34 MFLOP: about a millisecond on a core, so that a launch costs little
SAMPLES = 30  # of a control, at least: its least one stands for 30 ms, longer than most disturbances
REPEATS = 2  # of a control that is not good, before its member is excluded
BLOCK_SECONDS = 60.0  # between two controls of a member; a killed driver measures at most that again
OPENING = 3  # controls of a member that joins: the median of three survives one disturbed measurement
BOUND = 0.2  # relative difference: equal kernels on alike machines differ by up to 7 % from run to run, and launches of
#              PoCL by 20 %; a choice between configurations is spoilt by more than that
EARLIER = "in an earlier run"  # the origin of a time that a change of the machine explains
ALIKE = 3  # references from which the median tells who is wrong


@dataclass(frozen=True, slots=True)
class Probe:
    """The control of a device."""

    problem: Problem
    configuration: Configuration
    kernel_version: int

    @property
    def key(self) -> str:
        """Everything that is measured: times of probes with other keys cannot be compared."""
        return f"{self.problem.key} {self.configuration.kernel} {self.kernel_version} {self.configuration.key}"


def probe(device: Device, plan: Plan) -> Probe | None:
    """The control of a device: a matrix product, else the plan's first problem that a kernel solves; None: neither."""
    problems = (Problem.make("gemm", **dict(PROBE)), *plan.problems)
    task = next(replace(plan, problems=problems).tasks(device), None)
    if task is None:
        return None
    default = task.default
    return Probe(task.problem, default, next(
        kernel.version for kernel in task.kernels if kernel.name == default.kernel))


def fault(seconds: float, known: Mapping[str, float]) -> str:
    """Why a control is not good, or an empty text. `known`: the times in seconds that are compared, by their origin."""
    if not 0 < seconds < math.inf:
        return "its control failed"
    return next((f"its control took {seconds:.3g} s, {other:.3g} s {origin}" for origin, other in known.items()
                 if differs(seconds, other)), "")


def is_slower(seconds: float, known: Mapping[str, float]) -> bool:
    """Whether a control that is not good is only slower, as other work on the machine makes it, and not faster."""
    return math.isfinite(seconds) and all(seconds >= other or not differs(seconds, other) for other in known.values())


def differs(seconds: float, other: float) -> bool:
    """Whether two times differ by more than BOUND, in either direction."""
    return max(seconds, other) > (1 + BOUND) * min(seconds, other)
