"""Control: a fixed benchmark, run regularly, that detects a member whose times drift from its own or its group's.

It is no comparison (`measuring.comparison`): it asks whether one kernel takes as long as a minute ago, yesterday, or on
another machine. A test can show that two times differ, not that they agree. Therefore a bound on the ratio decides.

The control is the safe default of a fixed problem. A member opens with three of them; their median is its reference.
A block of answers counts only if the control after it agrees with the reference, and with the median of the references
of the members that are alike. The finals of a fleet's search are a comparison (see `fleet.batch`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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


@dataclass(frozen=True, slots=True)
class KnownTimes:
    """The times in seconds with which a control is compared; None where a time is not known."""

    own: float | None = None  # the member's reference
    earlier: float | None = None  # the reference of its device in an earlier run
    group_median: float | None = None  # the median of the references of its group

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to compare with."""
        return self.own is self.earlier is self.group_median is None

    def fault(self, seconds: float) -> str:
        """Why a control is not good, or an empty text."""
        if not 0 < seconds < math.inf:
            return "its control failed"
        if self.own is not None and differs(seconds, self.own):
            return f"its control took {seconds:.3g} s instead of {self.own:.3g} s"
        if self.earlier is not None and differs(seconds, self.earlier):
            return f"its control took {seconds:.3g} s, {self.earlier:.3g} s in an earlier run"
        if self.group_median is not None and differs(seconds, self.group_median):
            return f"its control took {seconds:.3g} s, that of members like it {self.group_median:.3g} s"
        return ""

    def is_slower(self, seconds: float) -> bool:
        """Whether a control that is not good is only slower, as other work on the machine makes it, and not faster."""
        times = [time for time in (self.own, self.earlier, self.group_median) if time is not None]
        return math.isfinite(seconds) and all(seconds >= time or not differs(seconds, time) for time in times)


def is_unsteady(seconds: Sequence[float]) -> bool:
    """Whether the times of repeated controls differ by more than BOUND."""
    return differs(min(seconds, default=1.0), max(seconds, default=1.0))


def differs(seconds: float, other: float) -> bool:
    """Whether two times differ by more than BOUND, in either direction."""
    return max(seconds, other) > (1 + BOUND) * min(seconds, other)
