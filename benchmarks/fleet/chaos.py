"""Cause every kind of fault in a simulated fleet, and count what is lost or false: `python -m benchmarks.chaos`.

Twelve simulated devices of two kinds on six hosts tune problems with random search while workers are killed, hosts are
lost or busy with other work, networks stall, devices slow down, fail and lie, the disk fills up, the clock jumps and
the driver is killed and started again. The journal must then hold exactly the trials of a run without faults, each once
and with its true time.
`recovery` is the virtual time until everything that a fault's members had in hand was in the journal.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.common.page import Page, Results, add_out, check_ready, evaluated, publish
from benchmarks.common.program import OneLineParser, positive, run_program
from benchmarks.common.report import Row, markdown, today
from benchmarks.fleet.injected_faults import (
    CLOCK,
    DISK,
    DRIVER,
    FaultLog,
    Identity,
    InjectedFault,
    WatchedJournal,
    identity_of,
    planned_faults,
)
from benchmarks.fleet.simulated_work import DEVICE, KERNEL, OTHER, members, problems, seconds
from seqtune.data.record import Record
from seqtune.errors import SeqtuneError
from seqtune.tuner.fleet.engine import Event
from seqtune.tuner.fleet.fleet_options import FleetOptions
from seqtune.tuner.fleet.fleet_run import FleetRun
from seqtune.tuner.fleet.member import Member
from seqtune.tuner.tuning_options import Budget, Finals, TuningOptions

from .simulated_engine import DriverKilled, SimulatedEngine
from .simulated_fault import SimulatedFault

HOSTS = 6  # each with a device of either kind
TRIALS = 100  # of each problem
COST = 1.0  # s of a measurement: the faults last for many measurements, and for some blocks
FAULTY = 0.8  # share of the undisturbed time in which faults begin
DRIVER_SHARE = 0.06  # of the faults, for each kind of the driver's
DISK_SECONDS = 40.0  # that the disk is full
OPTIONS = FleetOptions(TuningOptions("random", finals=Finals(count=2)), rest=60.0, rests=100)


class ChaosEngine(SimulatedEngine):
    """A simulated fleet in which also the driver's own machine has faults."""

    def prepare(self, log: FaultLog, plan: Sequence[tuple[float, str]]) -> None:
        """Set the log and the driver's faults, with their times."""
        self.log, self.driver_plan = log, sorted(plan)
        self.jumped = 0.0  # s that the clock of the host is wrong

    def wait(self, seconds: float) -> list[Event]:
        """Let the time pass, and begin the driver's faults."""
        events = super().wait(seconds)
        self.log.journal.now = self.clock
        while self.driver_plan and self.driver_plan[0][0] <= self.clock:
            _, kind = self.driver_plan.pop(0)
            self.log.note_all(kind, self.clock)
            if kind == DISK:
                self.log.journal.full_until = self.clock + DISK_SECONDS
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


def run_campaign(folder: Path, count: int, faults: Sequence[SimulatedFault], plan: Sequence[tuple[float, str]],
                 seed: int) -> tuple[list[InjectedFault], list[Record], float, int]:
    """Tune `count` problems; return the faults, the records, the virtual seconds and the number of measurements."""
    journal = WatchedJournal(folder / "journal.sqlite")
    journal.watch()
    log, rest, clock, measured = FaultLog(journal), sorted(plan), 0.0, 0
    with journal:
        while True:
            engine = ChaosEngine(fleet(), seconds, faults, COST, seed=seed, begins=clock, on_fault=log.note)
            engine.prepare(log, rest)
            run = log.run = FleetRun(problems(count), engine, journal, Budget(trials=TRIALS), FleetOptions(
                OPTIONS.tuning, rest=OPTIONS.rest, rests=OPTIONS.rests, wall=engine.wall), [KERNEL])
            try:
                for _ in run.results():
                    pass
                return log.recover(), list(journal.records()), engine.clock, measured + engine.measured
            except DriverKilled:
                clock, rest = engine.clock + 1.0, engine.driver_plan
                measured += engine.measured


def judge(records: Sequence[Record], expected: set[Identity]) -> Row:
    """Count the records that are missing, doubled or false."""
    identities = [identity_of(record) for record in records]
    devices = {device.fingerprint: device for device in (DEVICE, OTHER)}
    false = sum(record.measurement.seconds != seconds(devices[record.machine], record.problem, record.configuration)
                for record in records)
    trials = [identity for record, identity in zip(records, identities, strict=True) if record.run != "final"]
    return {"records": len(trials), "lost": len(expected - set(identities)), "doubled": len(trials) - len(set(trials)),
            "unexpected": len(set(identities) - expected), "false": false,
            "loaded": sum(record.loaded for record in records)}


def chaos(count: int, faults: int, campaigns: int, seed: int) -> dict[str, Any]:
    """Run campaigns of `count` problems with `faults` faults each; return the sums and the faults by kind."""
    sums: Row = {}
    injected: list[InjectedFault] = []
    with tempfile.TemporaryDirectory() as folder:
        _, undisturbed, usual, _ = run_campaign(_subfolder(folder, "sound"), count, (), (), seed)
        expected = {identity_of(record) for record in undisturbed}
        clocks, measured = [], 0
        for number in range(campaigns):
            generator = random.Random(seed + number)
            plan = [(generator.uniform(10, FAULTY * usual), kind) for kind in (DRIVER, DISK, CLOCK)
                    for _ in range(max(1, round(DRIVER_SHARE * faults)))]
            planned = planned_faults(fleet(), faults - len(plan), FAULTY * usual, seed + number)
            begun, records, clock, answers = run_campaign(_subfolder(folder, str(number)), count, planned, plan, number)
            injected += begun
            clocks.append(clock)
            measured += answers
            for name, value in judge(records, expected).items():
                sums[name] = sums.get(name, 0) + value
    return {"campaigns": campaigns, "members": 2 * HOSTS, "measured": measured, "faults": len(injected),
            "faults_with_work": sum(bool(fault.in_hand) for fault in injected), **sums,
            "seconds_without_faults": usual, "seconds_with_faults": statistics.mean(clocks), "kinds": by_kind(injected)}


def _subfolder(folder: str, name: str) -> Path:
    path = Path(folder) / name
    path.mkdir()
    return path


def by_kind(faults: Sequence[InjectedFault]) -> list[Row]:
    """Make a row for each kind: how many, and the recovery of those whose members had work in hand, in seconds."""
    rows: list[Row] = []
    for kind in dict.fromkeys(fault.kind for fault in faults):
        alike = [fault for fault in faults if fault.kind == kind]
        seconds = sorted(fault.recovered - fault.begin for fault in alike if fault.in_hand)
        rows.append({"kind": kind, "faults": len(alike), "with_work": len(seconds),
                     "unrecovered": sum(math.isinf(value) for value in seconds),
                     "median": statistics.median(seconds) if seconds else 0.0, "longest": max(seconds, default=0.0)})
    return sorted(rows, key=lambda row: str(row["kind"]))


def table(rows: Sequence[Row]) -> str:
    """Make the table: a line for each kind of fault."""
    return markdown(["fault", "number", "with work in hand", "median recovery, s", "longest, s"],
                    [[row["kind"], f"{row['faults']}", f"{row['with_work']}", f"{row['median']:.0f}",
                      f"{row['longest']:.0f}"] for row in rows])


def page(results: Results) -> Page:
    """Make the page of the results."""
    return Page(
        "chaos", "Faults of a fleet",
        f"{results['faults']} faults during {results['measured']:,} replayed measurements: {results['lost']} trials "
        f"lost, {results['doubled']} doubled, {results['false']} with a time that is not the true one.",
        "python -m benchmarks.chaos --out docs", table(results["kinds"]),
        evaluated(results, "a simulation on a virtual clock"),
        f"{results['campaigns']} campaigns of {results['members']} simulated devices on {HOSTS} hosts, {COST:.0f} s "
        "for a measurement and 60 s between controls. Recovery is the virtual time from the begin of a fault until "
        "everything that its members had in hand was in the journal; it is at least the time to the next control. A "
        f"campaign took {results['seconds_with_faults']:.0f} s, {results['seconds_without_faults']:.0f} s without "
        "faults.",
        ("A fault whose member was already gone or set aside for another one finds no work in its hand.",
         "The faults of the driver concern everything that all members have in hand, so their recovery includes that "
         "of the members' own faults at the same time.",
         "A device that lies and is honest again before its next control is not found out; the lies here last longer "
         "than a block. With 60 s between controls, that is what a control can promise.",
         f"A busy machine (load) reports it, and its members wait for quiet; {results['loaded']} records are marked as "
         "measured under load, which the driver does only after ten minutes.",
         "A device that lies from its first control on is found out only by devices that are like it, from three on, "
         "or by the controls of an earlier run.",
         "A hung worker is waited for as long as its batch may honestly take (building, running, a new worker after a "
         "crash), which explains the longest recoveries."))


def main() -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--problems", type=positive, default=120, help="number of problems of a campaign")
    parser.add_argument("--faults", type=positive, default=72, help="number of faults of a campaign")
    parser.add_argument("--campaigns", type=positive, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    add_out(parser)
    given: argparse.Namespace = parser.parse_args()
    check_ready(given.out)
    results = {"date": today(), **chaos(given.problems, max(given.faults, 3), given.campaigns,
                                        given.seed)}
    print(json.dumps(results) if given.json else f"{page(results).claim}\n\n{table(results['kinds'])}")
    publish(given.out, page, results)
    wrong = {name: results[name] for name in ("lost", "doubled", "false", "unexpected") if results[name]}
    if wrong:
        raise SeqtuneError(f"the journal is not what it should be: {wrong}")


if __name__ == "__main__":
    run_program("chaos", main)
