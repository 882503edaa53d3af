"""FleetOptions: the options of a fleet's run, each with its reason; and FleetProgress, which the run reports."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from .member import MemberProgress


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


def ignore_fleet_progress(progress: FleetProgress) -> None:
    """Do not report the progress."""


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """Options of a fleet's run, beside its plan: what tests change, and whom the run tells. Times are seconds."""

    block_seconds: float = 60.0  # between two controls of a member; a killed driver measures at most that again
    block_most: int = 500  # answers of a block
    backoff: float = 30.0  # before an excluded member is tried again; twice as long each further time
    retries: int = 4  # times that an excluded member is tried again
    on_fleet_progress: Callable[[FleetProgress], None] = ignore_fleet_progress  # about once a second
    wall: Callable[[], float] = time.time  # of `Record.when`, seconds since 1970; no decision depends on it
