"""Injected faults: a plan of accidents of every kind, and how long it takes until their damage is made good.

A fault is made good when everything that its members had in hand when it began (handed out, or answered and not
written) is in the journal.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from seqtune.data.journal import Journal
from seqtune.data.record import Record
from seqtune.errors import SeqtuneError
from seqtune.tuner.fleet.batch import Purpose
from seqtune.tuner.fleet.fleet_run import FleetRun
from seqtune.tuner.fleet.member import Member
from seqtune.tuner.fleet.member_state import MemberState

from .simulated_fault import FaultKind, SimulatedFault

Identity = tuple[str, str, str, str]  # problem, machine, configuration, purpose
NODE, DRIVER, DISK, CLOCK = "node lost", "driver killed", "disk full", "clock jumps"
SECONDS: dict[FaultKind, tuple[float, float]] = {  # shortest and longest duration
    FaultKind.KILLED: (5, 60), FaultKind.HUNG: (5, 400), FaultKind.STALLED: (2, 400), FaultKind.SLOW: (30, 300),
    FaultKind.LYING: (200, 300),  # a device that is honest again at its next control is not found out
    FaultKind.LOAD: (200, 300),
    FaultKind.FAILING: (200, 300), FaultKind.REFUSING: (5, 60), FaultKind.DOUBLED: (10, 60),
    FaultKind.SHUFFLED: (10, 60)}
FACTORS = {FaultKind.LYING: (0.3, 0.7, 1.4, 3.0), FaultKind.LOAD: (1.4, 3.0)}


@dataclass(slots=True)
class InjectedFault:
    """A fault that happened. Times are those of the virtual clock, in seconds."""

    kind: str
    begin: float
    in_hand: set[Identity] = field(default_factory=set)
    recovered: float = 0.0  # when the last of these was written


class WatchedJournal(Journal):
    """A journal that notes when what was written, and whose disk is full at times."""

    now: float = 0.0
    full_until: float = -math.inf

    def watch(self) -> None:
        """Begin to note."""
        self.written: dict[Identity, float] = {}
        self.refused = 0

    def add_all(self, records: Sequence[Record]) -> int:
        """Store records, unless the disk is full."""
        if self.now < self.full_until:
            self.refused += 1
            raise SeqtuneError("the journal cannot be used now: database or disk is full")
        added = super().add_all(records)
        for record in records:
            self.written.setdefault(identity_of(record), self.now)
        return added


def identity_of(record: Record) -> Identity:
    """The identity of a record."""
    purpose = Purpose.COMPARE if record.run == "final" else Purpose.MEASURE
    return record.problem.key, record.machine, record.configuration.key, purpose


def in_hand(state: MemberState) -> set[Identity]:
    """Everything that a member has, or that it has answered and that is not written."""
    machine = state.member.device.fingerprint
    handed = {(handed.batch.problem.key, machine, configuration.key, handed.batch.purpose.value)
              for handed in state.handed.values() if handed.search is not None
              for configuration in handed.batch.configurations}
    answered = {(entry.search.search.task.problem.key, machine, entry.configuration.key, entry.purpose.value)
                for block in state.blocks for entry in block.entries}
    return handed | answered


def planned_faults(members: Sequence[Member], count: int, seconds: float, seed: int) -> list[SimulatedFault]:
    """Faults of members, `count` in all, every kind equally often, within the first `seconds` of a run.

    Every so often all members on a host are killed together, and a busy host disturbs all of its members; both count
    as one fault.
    """
    generator, kinds = random.Random(seed), list(SECONDS)
    faults = []
    for number in range(count):
        kind, begin, member = (*kinds, FaultKind.KILLED)[number % (len(kinds) + 1)], generator.uniform(5, seconds), \
            generator.choice(members)
        end = begin + generator.uniform(*SECONDS[kind])
        factor = generator.choice(FACTORS.get(kind, (3.0, 1e4)))
        whole_host = kind is FaultKind.LOAD or number % (len(kinds) + 1) == len(kinds)
        faults += [SimulatedFault(kind, other.name, begin, end, factor) for other in members
                   if other is member or (whole_host and other.host == member.host)]
    return faults


class FaultLog:
    """The faults of one campaign that have begun."""

    def __init__(self, journal: WatchedJournal) -> None:
        self.journal = journal
        self.faults: list[InjectedFault] = []
        self.run: FleetRun | None = None

    def note(self, fault: SimulatedFault) -> None:
        """Note a fault of a member that begins now."""
        assert self.run is not None
        state = self.run.roster.members.get(fault.name)
        hand = set() if state is None else in_hand(state)
        if self.faults and self.faults[-1].begin == fault.begin:  # another member of the same host
            self.faults[-1].kind = NODE if fault.kind is FaultKind.KILLED else fault.kind.value
            self.faults[-1].in_hand |= hand
        else:
            self.faults.append(InjectedFault(fault.kind.value, fault.begin, hand))

    def note_all(self, kind: str, now: float) -> None:
        """Note a fault that begins now and concerns the whole fleet."""
        assert self.run is not None
        concerned = set().union(*map(in_hand, self.run.roster.members.values()))
        machine_entries = {identity_of(entry.record()) for entry in self.run.ledger.unwritten}
        self.faults.append(InjectedFault(kind, now, concerned | machine_entries))

    def recover(self) -> list[InjectedFault]:
        """All faults, with the time when each was made good; infinite if something in hand was never written."""
        for fault in self.faults:
            fault.recovered = max((self.journal.written.get(identity, math.inf) for identity in fault.in_hand),
                                  default=fault.begin)
        return self.faults
