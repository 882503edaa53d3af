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
    """Options of a fleet's run, beside its plan. Times are seconds."""

    batch_seconds: float = 5.0  # work in a batch: much longer than a message takes, short enough to share a search
    batch_most: int = 64  # configurations of a batch
    block_seconds: float = 60.0  # between two controls of a member; a killed driver measures at most that again
    block_most: int = 500  # answers of a block
    held_most: int = 100_000  # answers of all blocks, which are in memory until their control (about 1 kB each)
    grace: float = 30.0  # that the network may delay an answer
    consecutive_failures: int = 3  # times in a row that a member may be late or fail before it is excluded
    backoff: float = 30.0  # before an excluded member is tried again; twice as long each further time
    longest_backoff: float = 300.0
    retries: int = 4  # times that an excluded member is tried again
    retries_reset: float = 3600.0  # of good controls after which the exclusions of a member are forgotten
    pause: float = 10.0  # before a member on a busy machine is tried again; each further pause is twice as long
    longest_pause: float = 60.0
    busy_timeout: float = 600.0  # to wait for quiet; afterwards records are written, marked as measured under load
    join_timeout: float = 300.0  # to wait for a member to join, or to join again, before a group is given up
    write_retry: float = 5.0  # before a write that failed is tried again
    write_timeout: float = 600.0  # to wait for a journal that cannot be written (a full disk) before the run ends
    stop_timeout: float = 30.0  # to wait for the controls after Ctrl-C
    tick: float = 0.5  # between two looks at the clocks; also the longest time that Ctrl-C waits for the engine
    on_fleet_progress: Callable[[FleetProgress], None] = ignore_fleet_progress  # about once a second
    wall: Callable[[], float] = time.time  # of `Record.when`, seconds since 1970; no decision depends on it
