"""Many faults of every kind at once: the journal then holds exactly the trials of a run without faults.

Twelve simulated devices of two kinds on six hosts tune with random search while workers are killed, hosts are lost or
busy with other work, networks stall, devices slow down, fail and lie, the disk fills up, the clock jumps, and the
driver is killed and started again.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from seqtune.data.journal.journal import Journal
from seqtune.data.record import Record
from seqtune.errors import SeqtuneError
from seqtune.tuner.fleet import roster
from seqtune.tuner.fleet.engine import Event, Member
from seqtune.tuner.fleet.run import FleetRun
from seqtune.tuner.run.plan import Budget
from tests.support.fleet.engine import DriverKilled, SimulatedEngine
from tests.support.fleet.fault import FaultKind, SimulatedFault
from tests.support.fleet.simulated import DEVICE, OTHER, members, plan_of, problems, seconds, untrue

HOSTS = 6  # each with a device of either kind
PROBLEMS = 10
TRIALS = 100  # of each problem
COST = 1.0  # s of a measurement: the faults last for many measurements, and for some blocks
FAULTY = 0.8  # share of the undisturbed time in which faults begin
MEMBER_FAULTS = 15  # one of each kind, and some kinds twice
DISK_SECONDS = 40.0  # that the disk is full
DRIVER, DISK, CLOCK = "driver killed", "disk full", "clock jumps"
SECONDS: dict[FaultKind, tuple[float, float]] = {  # shortest and longest duration
    FaultKind.KILLED: (5, 60), FaultKind.HUNG: (5, 400), FaultKind.STALLED: (2, 400), FaultKind.SLOW: (30, 300),
    FaultKind.LYING: (200, 300),  # a device that is honest again at its next control is not found out
    FaultKind.LOAD: (200, 300), FaultKind.FAILING: (200, 300), FaultKind.REFUSING: (5, 60),
    FaultKind.DOUBLED: (10, 60), FaultKind.SHUFFLED: (10, 60)}
FACTORS = {FaultKind.LYING: (0.3, 0.7, 1.4, 3.0), FaultKind.LOAD: (1.4, 3.0)}


class FullDisk(Journal):
    """A journal whose disk is full until a time of the virtual clock."""

    now = 0.0
    full_until = -math.inf

    def add_all(self, records: Sequence[Record]) -> int:
        if self.now < self.full_until:
            raise SeqtuneError("the journal cannot be used now: database or disk is full")
        return super().add_all(records)


class FaultyDriver(SimulatedEngine):
    """A simulated fleet in which also the driver's own machine has faults."""

    def prepare(self, journal: FullDisk, plan: Sequence[tuple[float, str]]) -> None:
        """Set the journal and the driver's faults, with their times."""
        self.journal, self.plan = journal, sorted(plan)
        self.jumped = 0.0  # s that the clock of the host is wrong

    def wait(self, seconds: float) -> list[Event]:
        events = super().wait(seconds)
        self.journal.now = self.clock
        while self.plan and self.plan[0][0] <= self.clock:
            _, kind = self.plan.pop(0)
            if kind == DISK:
                self.journal.full_until = self.clock + DISK_SECONDS
            elif kind == CLOCK:
                self.jumped = -self.jumped - 1e6
            else:
                raise DriverKilled
        return events

    def wall(self) -> float:
        """The clock of the driver's host, seconds since 1970."""
        return 1.8e9 + self.clock + self.jumped


def fleet() -> list[Member]:
    """The members: the first half is of one kind, the second half of the other."""
    return [replace(member, name=f"{member.name} {number}") for number, device in enumerate((DEVICE, OTHER))
            for member in members(HOSTS, device)]


def planned_faults(fleet: Sequence[Member], count: int, seconds: float, seed: int) -> list[SimulatedFault]:
    """Faults of members, `count` in all, every kind equally often, within the first `seconds` of a run.

    Every so often all members on a host are killed together, and a busy host disturbs all of its members; both count
    as one fault.
    """
    generator, kinds = random.Random(seed), list(SECONDS)
    faults = []
    for number in range(count):
        kind, begin, member = (*kinds, FaultKind.KILLED)[number % (len(kinds) + 1)], generator.uniform(5, seconds), \
            generator.choice(fleet)
        end = begin + generator.uniform(*SECONDS[kind])
        factor = generator.choice(FACTORS.get(kind, (3.0, 1e4)))
        whole_host = kind is FaultKind.LOAD or number % (len(kinds) + 1) == len(kinds)
        faults += [SimulatedFault(kind, other.name, begin, end, factor) for other in fleet
                   if other is member or (whole_host and other.host == member.host)]
    return faults


def run_campaign(path: Path, faults: Sequence[SimulatedFault], plan: Sequence[tuple[float, str]],
                 seed: int) -> tuple[list[Record], float, int]:
    """Tune the problems; return the records, the virtual seconds, and the number of members' faults that began."""
    rest, clock = sorted(plan), 0.0
    begun: list[SimulatedFault] = []
    journal = FullDisk(path)
    with journal:
        while True:
            engine = FaultyDriver(fleet(), seconds, faults, COST, seed=seed, begins=clock, on_fault=begun.append)
            engine.prepare(journal, rest)
            run = FleetRun(plan_of(problems(PROBLEMS), Budget(trials=TRIALS)), engine, journal, wall=engine.wall)
            try:
                for _ in run.results():
                    pass
                return list(journal.records()), engine.clock, len({fault.begin for fault in begun})
            except DriverKilled:
                clock, rest = engine.clock + 1.0, engine.plan


def trials(records: Sequence[Record]) -> Counter[tuple[str, str, str, bool]]:
    """How often each trial is recorded: by problem, machine, configuration, and whether it is one of the finals."""
    return Counter((record.problem.key, record.machine, record.configuration.key, record.run == "final")
                   for record in records)


def test_many_faults_lose_and_double_nothing_and_leave_nothing_false(tmp_path: Path,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster, "BACKOFF", 60.0)
    monkeypatch.setattr(roster, "RETRIES", 100)
    undisturbed, usual, _ = run_campaign(tmp_path / "sound", (), (), 1)
    generator = random.Random(1)
    plan = [(generator.uniform(10, FAULTY * usual), kind) for kind in (DRIVER, DISK, CLOCK)]
    faults = planned_faults(fleet(), MEMBER_FAULTS, FAULTY * usual, 1)
    records, disturbed, begun = run_campaign(tmp_path / "faulty", faults, plan, 0)
    assert begun > 7  # some would begin after the end
    assert disturbed > usual
    found = trials(records)
    assert set(found) == set(trials(undisturbed))
    measured = {trial: count for trial, count in found.items() if not trial[3]}
    assert set(measured.values()) == {1}
    assert len(measured) == PROBLEMS * 2 * TRIALS
    assert untrue(records, (DEVICE, OTHER)) == []
