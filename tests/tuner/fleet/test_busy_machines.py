"""A busy machine is no liar: its members wait for quiet, and are not excluded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from seqtune.data.journal.journal import Journal
from seqtune.data.record import Record
from seqtune.errors import SeqtuneError
from seqtune.tuner.fleet import roster
from seqtune.tuner.fleet.engine import Member
from seqtune.tuner.fleet.member_state import FleetProgress, MemberPhase
from seqtune.tuner.fleet.run import FleetRun
from seqtune.tuner.run.plan import Budget
from tests.support.fleet.engine import SimulatedEngine
from tests.support.fleet.fault import FaultKind, SimulatedFault
from tests.support.fleet.simulated import DEVICE, members, plan_of, problems, seconds, untrue

PAIR = [replace(member, host="node", name=f"node/test:1#{number}") for number, member in enumerate(members(2))]


def run_on(folder: Path, fleet: Sequence[Member], faults: Sequence[SimulatedFault], cost: float = 0.5
           ) -> tuple[list[Record], SimulatedEngine, set[tuple[MemberPhase, str]]]:
    """Run four searches of 100 trials; return the trials, the engine, and all states of members that were seen."""
    seen: set[tuple[MemberPhase, str]] = set()

    def look(progress: FleetProgress) -> None:
        seen.update((member.phase, member.reason) for member in progress.members)

    with Journal(folder / "journal") as journal:
        engine = SimulatedEngine(fleet, seconds, faults, cost)
        run = FleetRun(plan_of(problems(4), Budget(trials=100)), engine, journal, look)
        assert len(list(run.results())) == 4
        records = list(journal.records(run="random"))
        assert len(records) == 400
        return records, engine, seen


def load_on(fleet: Sequence[Member], begin: float, end: float, factor: float = 2.0) -> list[SimulatedFault]:
    """Other work on the machine of all members."""
    return [SimulatedFault(FaultKind.LOAD, member.name, begin, end, factor) for member in fleet]


@pytest.mark.parametrize("fleet", [members(1), PAIR], ids=["one member", "two members"])
def test_members_of_a_busy_machine_wait_for_quiet_and_write_only_what_is_true(tmp_path: Path,
                                                                             fleet: list[Member]) -> None:
    records, engine, seen = run_on(tmp_path, fleet, load_on(fleet, 30, 330))
    assert not untrue(records, [DEVICE])
    assert not any(record.loaded for record in records)
    assert {phase for phase, _ in seen}.isdisjoint({MemberPhase.EXCLUDED, MemberPhase.LATE})
    start = "the machine is busy (other processes had 50% of the CPUs); its control took "
    assert any(phase is MemberPhase.BUSY and reason.startswith(start) for phase, reason in seen)
    assert engine.clock < 330 + 60 + 250  # a pause, and the work


def test_a_machine_that_stays_busy_measures_with_a_mark(tmp_path: Path) -> None:
    records, engine, seen = run_on(tmp_path, members(1), load_on(members(1), 70, 1e6))
    wrong = untrue(records, [DEVICE])
    assert wrong
    assert all(record.loaded for record in wrong)
    assert not all(record.loaded for record in records)  # the first block was measured before
    assert MemberPhase.EXCLUDED not in {phase for phase, _ in seen}
    assert roster.BUSY_SECONDS < engine.clock < roster.BUSY_SECONDS + 700


def test_a_reference_of_a_busy_machine_gives_way_to_that_of_a_quiet_one(tmp_path: Path) -> None:
    records, _, seen = run_on(tmp_path, members(1), load_on(members(1), 0, 150))
    wrong = untrue(records, [DEVICE])
    assert wrong  # two blocks before the load ended, in which nothing could be compared
    assert all(record.loaded for record in wrong)
    assert sum(not record.loaded for record in records) > 200
    assert MemberPhase.EXCLUDED not in {phase for phase, _ in seen}


@pytest.mark.parametrize("factor", [0.6, 1.6])
def test_a_member_that_drifts_without_load_lies(tmp_path: Path, factor: float,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster, "RETRIES", 10)
    faults = [SimulatedFault(FaultKind.LYING, members(1)[0].name, 30, 330, factor)]
    records, _, seen = run_on(tmp_path, members(1), faults)
    assert not untrue(records, [DEVICE])
    assert MemberPhase.EXCLUDED in {phase for phase, _ in seen}


def test_a_member_that_becomes_faster_on_a_busy_machine_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster, "RETRIES", 10)
    name = members(1)[0].name
    faults = [SimulatedFault(FaultKind.LYING, name, 30, 330, 0.3), *load_on(members(1), 30, 330)]
    records, _, seen = run_on(tmp_path, members(1), faults)
    assert not untrue(records, [DEVICE])
    assert MemberPhase.EXCLUDED in {phase for phase, _ in seen}


def test_members_of_one_host_that_slow_down_together_are_no_liars(tmp_path: Path,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reports a load: another virtual machine, or heat, has slowed the host."""
    monkeypatch.setattr(roster, "RETRIES", 1)
    faults = [SimulatedFault(FaultKind.LYING, member.name, 30, 300, 1.7) for member in PAIR]
    records, _, seen = run_on(tmp_path, PAIR, faults)
    assert not untrue(records, [DEVICE])
    assert any(phase is MemberPhase.BUSY and "its machine has become slower" in reason for phase, reason in seen)


def test_a_host_that_stays_slow_without_a_load_is_not_trusted(tmp_path: Path) -> None:
    faults = [SimulatedFault(FaultKind.LYING, member.name, 30, 1e6, 1.7) for member in PAIR]
    with pytest.raises(SeqtuneError, match="no member is left"):
        run_on(tmp_path, PAIR, faults)
    with Journal(tmp_path / "journal") as journal:
        assert not untrue(list(journal.records()), [DEVICE])
