"""SimulatedFault: an accident of a simulated fleet, planned for a member and a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    """The kind of an accident, which lasts from the begin of the fault to its end."""

    KILLED = "killed"  # the worker is gone and has forgotten everything; it joins again at the end
    HUNG = "hung"  # it neither answers nor leaves; it joins again at the end
    STALLED = "stalled"  # messages to and from it are held until the end
    SLOW = "slow"  # it takes `factor` times as long, and measures correctly
    LYING = "lying"  # the times that it reports are `factor` times the true ones
    LOAD = "load"  # other work has its machine, which the host reports: everything takes `factor` times as long
    FAILING = "failing"  # every configuration fails
    REFUSING = "refusing"  # batches end with an error at once
    DOUBLED = "doubled"  # every answer comes twice
    SHUFFLED = "shuffled"  # the answers of a batch come in random order


@dataclass(frozen=True, slots=True)
class SimulatedFault:
    """A fault. A host that is lost is a fault KILLED of each of its members, a busy one a fault LOAD."""

    kind: FaultKind
    name: str  # of the member
    begin: float  # s of the virtual clock
    end: float = math.inf
    factor: float = 1.0  # SLOW, LYING and LOAD


class FaultPlan:
    """The faults of one member."""

    def __init__(self, faults: Sequence[SimulatedFault]) -> None:
        self.faults = tuple(faults)

    def fault(self, kind: FaultKind, now: float) -> SimulatedFault | None:
        """The fault of a kind that holds at a time, or None."""
        for fault in self.faults:
            if fault.kind is kind and fault.begin <= now < fault.end:
                return fault
        return None

    def factor(self, kind: FaultKind, now: float) -> float:
        """The factor of a fault that holds, else 1."""
        fault = self.fault(kind, now)
        return 1.0 if fault is None else fault.factor
