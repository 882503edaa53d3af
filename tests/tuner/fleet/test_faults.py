"""The outcome of each fault of a member: nothing is lost, nothing is doubled, nothing false is in the journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from seqtune.data.journal.journal import Journal
from seqtune.errors import SeqtuneError
from seqtune.tuner.fleet.engine import Member
from seqtune.tuner.fleet.member_state import MemberPhase, MemberProgress
from seqtune.tuner.fleet.roster import BACKOFF
from seqtune.tuner.fleet.run import FleetRun
from seqtune.tuner.run.plan import Budget
from tests.support.fleet.engine import SimulatedEngine
from tests.support.fleet.fault import FaultKind, SimulatedFault
from tests.support.fleet.simulated import (
    DEVICE,
    OTHER,
    TUNING,
    Content,
    CrampedEngine,
    contents,
    members,
    plan_of,
    problems,
    seconds,
    untrue,
)

FIRST = "node0/test:1"
Sound = Callable[[int], list[Content]]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    """The records of runs without faults, by the number of problems."""
    @cache
    def contents_of(count: int) -> list[Content]:
        with Journal(tmp_path_factory.mktemp("sound") / "journal") as journal:
            run = FleetRun(plan_of(problems(count), Budget(trials=100)), SimulatedEngine(members(8), seconds), journal)
            assert len(list(run.results())) == count
            return contents(journal)

    return contents_of


def run_with(folder: Path, sound: Sound, faults: Sequence[SimulatedFault], fleet: Sequence[Member], count: int = 6,
             cost: float = 0.1) -> tuple[MemberProgress, SimulatedEngine]:
    """Run with faults; check that the records are those of a run without; return the first member's state."""
    with Journal(folder / "journal") as journal:
        engine = SimulatedEngine(fleet, seconds, faults, cost)
        run = FleetRun(plan_of(problems(count), Budget(trials=100)), engine, journal)
        assert len(list(run.results())) == count
        expected = sound(count)
        assert contents(journal, "random") == [content for content in expected if content[2] == "random"]
        assert set(contents(journal)) == set(expected)
        assert run.writer.doubled == 0
        return run.progress().members[0], engine


@pytest.mark.parametrize(("fault", "phase"), [
    (SimulatedFault(FaultKind.KILLED, FIRST, 5.0, 10.0), MemberPhase.WAITING),
    (SimulatedFault(FaultKind.KILLED, FIRST, 5.0), MemberPhase.LEFT),
    (SimulatedFault(FaultKind.KILLED, FIRST, 0.1), MemberPhase.LEFT),  # during its first controls
    (SimulatedFault(FaultKind.HUNG, FIRST, 5.0, 10.0), MemberPhase.WAITING),  # it joins again before it is late
    (SimulatedFault(FaultKind.HUNG, FIRST, 5.0), MemberPhase.LATE),
    (SimulatedFault(FaultKind.STALLED, FIRST, 5.0, 30.0), MemberPhase.WAITING),
    (SimulatedFault(FaultKind.SLOW, FIRST, 5.0, factor=1e5), MemberPhase.LATE),
    (SimulatedFault(FaultKind.SLOW, FIRST, 5.0, factor=5.0), MemberPhase.WAITING),
    (SimulatedFault(FaultKind.LYING, FIRST, 5.0, factor=0.6), MemberPhase.EXCLUDED),
    (SimulatedFault(FaultKind.LYING, FIRST, 5.0, factor=1.5), MemberPhase.EXCLUDED),
    (SimulatedFault(FaultKind.LYING, FIRST, 0.0, factor=0.6), MemberPhase.EXCLUDED),  # only alike members can tell
    (SimulatedFault(FaultKind.FAILING, FIRST, 5.0), MemberPhase.EXCLUDED),
    (SimulatedFault(FaultKind.FAILING, FIRST, 0.0), MemberPhase.EXCLUDED),
    (SimulatedFault(FaultKind.REFUSING, FIRST, 5.0), MemberPhase.EXCLUDED),
    (SimulatedFault(FaultKind.DOUBLED, FIRST, 5.0), MemberPhase.WAITING),
    (SimulatedFault(FaultKind.SHUFFLED, FIRST, 0.0), MemberPhase.WAITING),
], ids=lambda value: f"{value.kind}-{value.begin:.0f}-{value.factor}" if isinstance(value, SimulatedFault) else None)
def test_a_fault_of_one_member_changes_no_record(tmp_path: Path, sound: Sound, fault: SimulatedFault,
                                                 phase: MemberPhase) -> None:
    state, _ = run_with(tmp_path, sound, [fault], members(4))
    assert state.phase is phase
    assert bool(state.reason) == (phase is not MemberPhase.WAITING)


@pytest.mark.parametrize("kind", [FaultKind.KILLED, FaultKind.HUNG, FaultKind.STALLED, FaultKind.FAILING])
def test_a_sole_member_goes_on_after_its_fault(tmp_path: Path, sound: Sound, kind: FaultKind) -> None:
    state, engine = run_with(tmp_path, sound, [SimulatedFault(kind, FIRST, 5.0, 300.0)], members(1), count=2)
    assert state.phase is MemberPhase.WAITING
    assert engine.clock > 300


def test_a_late_member_is_given_work_when_it_answers_again(tmp_path: Path, sound: Sound) -> None:
    fault = SimulatedFault(FaultKind.STALLED, FIRST, 5.0, 400.0)
    state, engine = run_with(tmp_path, sound, [fault], members(2), cost=2.0)
    assert engine.clock > 420
    assert state.phase is MemberPhase.WAITING
    assert state.done > 100


def test_a_node_that_is_lost_takes_all_its_members(tmp_path: Path, sound: Sound) -> None:
    faults = [SimulatedFault(FaultKind.KILLED, member.name, 4.0) for member in members(3)]
    state, _ = run_with(tmp_path, sound, faults, members(4))
    assert state.phase is MemberPhase.LEFT


def test_every_member_of_a_fleet_may_have_a_fault(tmp_path: Path, sound: Sound) -> None:
    kinds = [FaultKind.KILLED, FaultKind.STALLED, FaultKind.LYING, FaultKind.HUNG, FaultKind.DOUBLED,
             FaultKind.SHUFFLED]
    faults = [SimulatedFault(kind, member.name, 2.0 + number, 60.0 + number, 1.7)
              for number, (kind, member) in enumerate(zip(kinds, members(6), strict=True))]
    run_with(tmp_path, sound, faults, members(6))


def test_a_lie_is_told_neither_to_the_journal_nor_in_the_end_to_the_strategy(tmp_path: Path) -> None:
    """The strategy learns from times. After a lie it is built again and told the truth."""
    plan = plan_of(problems(2), Budget(trials=200), replace(TUNING, strategy="evolutionary", batch=40))
    trials = []
    for faults in ([], [SimulatedFault(FaultKind.LYING, FIRST, 1.0, factor=0.5)]):
        with Journal(tmp_path / f"{len(faults)}") as journal:
            run = FleetRun(plan, SimulatedEngine(members(4), seconds, faults), journal)
            list(run.results())
            assert not untrue(list(journal.records()), [DEVICE])
            trials.append(contents(journal, "evolutionary"))
            assert run.progress().members[0].phase is (MemberPhase.EXCLUDED if faults else MemberPhase.WAITING)
    common = set(trials[0]) & set(trials[1])
    assert len(common) > 0.7 * len(trials[0])  # the journal's history of the other problem may differ


def test_unlike_members_do_not_take_over_the_work_of_a_lost_one(tmp_path: Path) -> None:
    fault = SimulatedFault(FaultKind.KILLED, "other0/test:1", 2.0)
    with Journal(tmp_path / "journal") as journal:
        engine = SimulatedEngine(members(2) + members(1, OTHER, "other"), seconds, [fault])
        run = FleetRun(plan_of(problems(2), Budget(trials=100)), engine, journal)
        with pytest.raises(SeqtuneError, match="2 problems are not finished: no member is left: other0/test:1: its "):
            list(run.results())
        assert {skipped.reason for skipped in run.skipped} == {
            "no member is left: other0/test:1: its worker was killed"}
        records = list(journal.records(run="random"))
        assert sum(record.machine == DEVICE.fingerprint for record in records) == 200
        assert sum(record.machine == OTHER.fingerprint for record in records) == 0  # no control had proved them


def test_a_member_that_always_fails_is_given_up_after_some_rests(tmp_path: Path) -> None:
    fault = SimulatedFault(FaultKind.FAILING, FIRST, 0.0)
    with Journal(tmp_path / "journal") as journal:
        engine = SimulatedEngine(members(1), seconds, [fault])
        run = FleetRun(plan_of(problems(2), Budget(trials=10)), engine, journal)
        with pytest.raises(SeqtuneError, match=r"no member is left: .*its control failed"):
            list(run.results())
        assert engine.clock == pytest.approx(15 * BACKOFF, rel=0.1)  # 1 + 2 + 4 + 8 times
        assert list(journal.records()) == []


def test_a_problem_that_no_member_can_measure_is_left_out(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        run = FleetRun(plan_of(problems(3), Budget(trials=50)), CrampedEngine(problems(3)[1]), journal)
        assert [result.done for result in run.results()] == [50, 50]
        skipped, = run.skipped
        assert (skipped.problem, skipped.reason) == (problems(3)[1], "out of memory")
        assert all(member.phase is MemberPhase.WAITING for member in run.progress().members)
