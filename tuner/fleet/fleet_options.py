"""FleetOptions: the options of a fleet's run, each with its reason; and GroupResult, what a run returns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from seqtune.kernels.devices.device import Device

from ..search import TuningResult
from ..tuning_options import TuningOptions
from .progress import FleetProgress


def ignore_fleet_progress(progress: FleetProgress) -> None:
    """Do not report the progress."""


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """Options of a fleet's run. Times are seconds."""

    tuning: TuningOptions = field(default_factory=TuningOptions)  # strategy, seed, measuring, finals
    total: int | None = None  # trials of a group, shared by all problems; None: the budget is for each problem
    retry_failed: bool = False  # measure again what timed out or crashed in an earlier run
    batch_seconds: float = 5.0  # work in a batch: much longer than a message takes, short enough to share a search
    batch_most: int = 64  # configurations of a batch
    block_seconds: float = 60.0  # between two controls of a member; a killed driver measures at most that again
    block_most: int = 500  # answers of a block
    held_most: int = 100_000  # answers of all blocks, which are in memory until their control (about 1 kB each)
    grace: float = 30.0  # that the network may delay an answer
    strikes: int = 3  # times in a row that a member may be late or fail before it is set aside
    rest: float = 30.0  # before a member that was set aside is tried again; each further rest is twice as long
    longest_rest: float = 300.0
    rests: int = 4  # times that it is tried again
    forgiven: float = 3600.0  # of good controls after which the rests of a member are forgotten
    pause: float = 10.0  # before a member on a busy machine is tried again; each further pause is twice as long
    longest_pause: float = 60.0
    busy_most: float = 600.0  # to wait for quiet; afterwards records are written, marked as measured under load
    lonely: float = 300.0  # to wait for a member to join, or to join again, before a group is given up
    retry: float = 5.0  # before a write that failed is tried again
    patience: float = 600.0  # to wait for a journal that cannot be written (a full disk) before the run ends
    stopping: float = 30.0  # to wait for the controls after Ctrl-C
    tick: float = 0.5  # between two looks at the clocks; also the longest time that Ctrl-C waits for the engine
    on_fleet_progress: Callable[[FleetProgress], None] = ignore_fleet_progress  # about once a second
    wall: Callable[[], float] = time.time  # of `Record.when`, seconds since 1970; no decision depends on it


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The result of a problem on the members that are alike."""

    device: Device
    members: tuple[str, ...]  # the names of the group's members
    result: TuningResult
