"""FleetProgress: what a run of a fleet reports of itself and of each of its members."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from enum import StrEnum


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


@dataclass(frozen=True, slots=True)
class FleetProgress:
    """The state of a run. `total` is an estimate until every problem was opened."""

    members: tuple[MemberProgress, ...]
    done: int  # trials of all groups
    total: int  # of all groups, by budget and spaces
    seconds: float  # since the begin
    rate: float  # trials/s of all members that are measuring
    note: str = ""  # what the run waits for, for example a full disk

    @property
    def seconds_left(self) -> float:
        """The seconds until the end at the present rate; infinite if nothing is measured."""
        return max(0, self.total - self.done) / self.rate if self.rate > 0 else math.inf

    def to_json(self) -> dict[str, object]:
        """A JSON object; an infinite time is null."""
        members = [{**asdict(member), "best": None if math.isinf(member.best) else member.best}
                   for member in self.members]
        left = self.seconds_left
        return {"members": members, "done": self.done, "total": self.total, "seconds": self.seconds,
                "rate": self.rate, "seconds_left": None if math.isinf(left) else left, "note": self.note}
