"""Control: a fixed probe that shows whether a member still measures as before, and as its like do.

The control is the safe default of a fixed problem. A member opens with three of them; their median is its reference.
A block of answers counts only if the control after it agrees with the reference, and with the median of the references
of the members that are alike.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from seqtune.errors import KernelError
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task

PROBE = (("m", 256), ("n", 256), ("k", 256))  # 34 MFLOP: about a millisecond on a core, so that a launch costs little
SAMPLES = 30  # of a control, at least: its least one stands for 30 ms, longer than most disturbances
REPEATS = 2  # of a control that is not good, before its member is set aside
OPENING = 3  # controls of a member that joins: the median of three survives one disturbed measurement
BOUND = 0.2  # relative difference: equal kernels on alike machines differ by up to 7 % from run to run, and launches of
#              PoCL by 20 %; a choice between configurations is spoilt by more than that
ALIKE = 3  # references from which the median tells who is wrong

Probe = tuple[Problem, Configuration]


def probe(device: Device, problems: Iterable[Problem], kernels: Sequence[Kernel] | None) -> Probe | None:
    """The control of a device: a matrix product, else the first of the problems that a kernel solves; None: neither."""
    for problem in (Problem.make("gemm", **dict(PROBE)), *problems):
        try:
            return problem, Task.of(problem, device, kernels).default
        except KernelError:
            continue
    return None


def median(seconds: Sequence[float]) -> float:
    """The median of a control's times in seconds; infinite if there is none, or most of them failed."""
    return statistics.median_high(seconds) if seconds else math.inf


def fault(seconds: float, reference: float | None, usual: float | None) -> str:
    """Why a control is not good, or an empty text.

    `reference` is the member's own one, `usual` the median of those of the members that are alike; None: not known.
    """
    if not 0 < seconds < math.inf:
        return "its control failed"
    if reference is not None and differs(seconds, reference):
        return f"its control took {seconds:.3g} s instead of {reference:.3g} s"
    if usual is not None and differs(seconds, usual):
        return f"its control took {seconds:.3g} s, that of members like it {usual:.3g} s"
    return ""


def differs(seconds: float, other: float) -> bool:
    """Whether two times differ by more than BOUND, in either direction."""
    return max(seconds, other) > (1 + BOUND) * min(seconds, other)
