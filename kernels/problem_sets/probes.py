"""Probes: the problems on which a calibration measures a device.

There are three of every kind (`kinds.KINDS`), a problem of each kind first, so that a short calibration sees all kinds.
They belong to the further training problems (`collected.further_training`), at most 6e8 FLOP each: a slow configuration
takes a few milliseconds. None is near a problem of the locked test set.
"""

from __future__ import annotations

from itertools import cycle

from ..devices.accelerators import BACKENDS
from ..files import sections
from ..problem import Problem
from .parse import parse_problem


def probes(backend: str = "llvm") -> list[Problem]:
    """The probes of a device of a backend: one of each kind, then the second of each kind, and so on.

    On GPUs they are in half precision, fp16 and bf16 in turn: that is what one has them for.
    """
    types = ("fp16", "bf16") if backend in BACKENDS else ("fp32",)
    lines = sections(__file__, "collected.txt")["probes"].splitlines()
    return [parse_problem(f"{line} dtype={dtype}")
            for line, dtype in zip(lines, cycle(types), strict=False)]
