"""Engine: carries batches to the members of a fleet, and their answers back. It decides nothing.

Ray is one engine, a simulation with a virtual clock another one. Scheduling, faults and trust are above both. All
methods are called from one thread, that of the driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from seqtune.data.record import Measurement
from seqtune.kernels.devices.device import Device

from ..load import Load
from .batch import MeasuringBatch

GroupKey = tuple[str, str, str]  # Device.key, Device.fingerprint, Device.toolchain

QUIET = Load()


def group_key(device: Device) -> GroupKey:
    """The key of a device's group. The members with one key are alike: a trial of one of them is a trial of all."""
    return device.key, device.fingerprint, device.toolchain


@dataclass(frozen=True, slots=True)
class Member:
    """A device that measures, and what is known of its host."""

    name: str  # unique in the fleet, the same after a restart: "node1/llvm:avx512:2"
    device: Device
    host: str = ""  # the name of its machine, which records carry
    allowance: float = 0.0  # seconds that its backend may take to build, where that is more than the options allow

    @property
    def group_key(self) -> GroupKey:
        """The key of its group."""
        return group_key(self.device)


@dataclass(frozen=True, slots=True)
class Joined:
    """A member is ready. One that left may join again under its name; it has then forgotten its batches."""

    member: Member


@dataclass(frozen=True, slots=True)
class Left:
    """A member is gone: its process ended, its node was lost, or it was refused. It does not answer any more."""

    name: str
    reason: str  # one line for the user


@dataclass(frozen=True, slots=True)
class Answered:
    """A member measured the configuration with this index of its batch."""

    name: str
    number: int  # MeasuringBatch.number
    index: int
    measurement: Measurement


@dataclass(frozen=True, slots=True)
class Finished:
    """A member has ended a batch: all is answered, it was cancelled, or (`error`) it cannot be measured."""

    name: str
    number: int  # MeasuringBatch.number
    error: str = ""  # one line; empty if nothing went wrong
    load: Load = QUIET  # of the member's host during a control; without load where it is not known


Event = Joined | Left | Answered | Finished


class Engine(Protocol):
    """Carries messages. A member works on its batches in the order in which they were submitted."""

    def now(self) -> float:
        """The time in seconds of a clock that never jumps."""
        ...

    def submit(self, name: str, batch: MeasuringBatch) -> None:
        """Hand a batch to a member, and return at once. A batch for a member that is gone is dropped silently."""
        ...

    def cancel(self, name: str, number: int) -> None:
        """Ask a member to end a batch after its current configuration. Answers may still come."""
        ...

    def wait(self, seconds: float) -> list[Event]:
        """Wait for an event, at most `seconds`; return all events since the last call, in their order.

        A member's answers to a batch come before its `Finished`.
        """
        ...

    def close(self) -> None:
        """Release the members. Workers of members end, also while they measure."""
        ...
