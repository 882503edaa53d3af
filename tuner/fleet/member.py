"""Member: one device of the fleet on one host, the phase in which it is, and what the user is shown of its work."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from seqtune.kernels.devices.device import Device

GroupKey = tuple[str, str, str]  # Device.key, Device.fingerprint, Device.toolchain


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


class MemberPhase(StrEnum):
    """The state of a member, in the words of the progress view."""

    OPENING = "opening"  # its first controls
    MEASURING = "measuring"
    WAITING = "waiting"  # nothing to do
    BUSY = "waiting for quiet"  # other work on its machine disturbs its controls
    LATE = "late"  # it has not answered for longer than its batch may take
    LEFT = "left"
    EXCLUDED = "excluded"  # it failed repeatedly, or its controls changed


@dataclass(frozen=True, slots=True)
class MemberProgress:
    """The work of one member so far."""

    name: str
    device: str  # Device.name
    phase: MemberPhase
    reason: str  # why it is late, gone, excluded or waits for quiet
    rate: float  # configurations/s while it measured
    done: int  # configurations that it measured; those of discarded blocks included
    failures: int  # of these, not correct
    best: float  # s, the least time that it measured; infinite if there is none
