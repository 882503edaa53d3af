"""A total that all problems share and failures that are tried again mean in a fleet what they mean on one machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from seqtune.data.journal.journal import Journal
from seqtune.data.record import Status
from seqtune.kernels.kernel import Parameter
from seqtune.kernels.task import Task
from seqtune.tuner.fleet.options import FleetOptions
from seqtune.tuner.fleet.run import FleetRun
from seqtune.tuner.run.local_run import LocalRun
from seqtune.tuner.run.plan import Budget, Plan
from tests.support.fleet.engine import DriverKilled, SimulatedEngine
from tests.support.fleet.fault import FaultKind, SimulatedFault
from tests.support.fleet.simulated import (
    DEVICE,
    KERNEL,
    OPTIONS,
    OTHER,
    TUNING,
    CrampedEngine,
    TrueMeasurer,
    members,
    plan_of,
    problems,
    seconds,
    untrue,
)

TOTAL = 150
SHARED = Budget(total=TOTAL)


def run_of(engine: SimulatedEngine, journal: Journal, options: FleetOptions = OPTIONS, count: int = 5,
           budget: Budget = SHARED) -> FleetRun:
    return FleetRun(plan_of(problems(count), budget), engine, journal, options)


def trials(journal: Journal, machine: str = DEVICE.fingerprint) -> set[tuple[str, str]]:
    """The trials of a machine, none of which is there twice."""
    listed = [(record.problem.key, record.configuration.key) for record in journal.records()
              if record.run != "final" and record.machine == machine]
    assert len(listed) == len(set(listed))
    return set(listed)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str]]:
    """The trials of one machine without a fleet."""
    with Journal(tmp_path_factory.mktemp("alone") / "journal") as journal:
        run = LocalRun(plan_of(problems(5), SHARED), journal, TrueMeasurer())
        assert sum(result.done for result in run.results()) == TOTAL
        return trials(journal)


@pytest.mark.parametrize("count", [1, 3, 4])
def test_up_to_four_members_share_a_total_as_one_machine_spends_it(tmp_path: Path, alone: set[tuple[str, str]],
                                                                   count: int) -> None:
    with Journal(tmp_path / "journal") as journal:
        run = run_of(SimulatedEngine(members(count), seconds), journal)
        assert sum(result.done for result in run.results()) == TOTAL
        assert trials(journal) == alone
        assert (run.progress().done, run.progress().total) == (TOTAL, TOTAL)
        assert not untrue(list(journal.records()), [DEVICE])


def test_a_larger_group_spends_the_total_on_several_problems_at_a_time(tmp_path: Path,
                                                                       alone: set[tuple[str, str]]) -> None:
    with Journal(tmp_path / "journal") as journal:
        engine = SimulatedEngine(members(20), seconds)
        assert len(list(run_of(engine, journal).results())) == 5
        shared = trials(journal)
        assert len(shared) == TOTAL
        assert len(shared & alone) > 0.8 * TOTAL
        counts = Counter(problem for problem, _ in shared)
        assert min(counts.values()) >= TOTAL / 2 / 5


@pytest.mark.parametrize("faults", [
    [SimulatedFault(FaultKind.LYING, "node0/test:1", 1.0, factor=1.6)],
    [SimulatedFault(FaultKind.KILLED, "node0/test:1", 1.0), SimulatedFault(FaultKind.LOAD, "node1/test:1", 1.5, 90, 2)],
], ids=["a lie", "a lost member and a busy one"])
def test_faults_change_nothing_of_the_total(tmp_path: Path, faults: Sequence[SimulatedFault]) -> None:
    with Journal(tmp_path / "journal") as journal:
        engine = SimulatedEngine(members(3), seconds, faults)
        run = run_of(engine, journal, replace(OPTIONS, block_seconds=2.0))
        assert len(list(run.results())) == 5
        assert len(trials(journal)) == TOTAL
        assert not untrue(list(journal.records()), [DEVICE])


def test_unlike_groups_have_a_total_each_and_a_killed_driver_resumes(tmp_path: Path) -> None:
    fleet = [*members(2), *members(1, OTHER, "other")]
    options = replace(OPTIONS, block_seconds=1.0)
    with Journal(tmp_path / "journal") as journal:
        with pytest.raises(DriverKilled):
            list(run_of(SimulatedEngine(fleet, seconds, driver_ends=4.0), journal, options).results())
        count = len(trials(journal)) + len(trials(journal, OTHER.fingerprint))
        assert 20 < count < 2 * TOTAL
        again = SimulatedEngine(fleet, seconds)
        assert len(list(run_of(again, journal, options).results())) == 10
        assert [len(trials(journal, device.fingerprint)) for device in (DEVICE, OTHER)] == [TOTAL, TOTAL]
        third = SimulatedEngine(fleet, seconds)
        assert len(list(run_of(third, journal, options).results())) == 10
        assert third.measured == 3 * 3  # the first controls: everything is in the journal


@pytest.mark.parametrize("total", [3, 5, 10_000])
def test_small_and_large_totals_end(tmp_path: Path, total: int) -> None:
    small = replace(KERNEL, name="test.small", parameters=tuple(Parameter(name, tuple(range(7))) for name in "xy"))
    with Journal(tmp_path / "journal") as journal:
        plan = Plan(problems(2), Budget(total=total), TUNING, partial(Task.of, kernels=[small]))
        run = FleetRun(plan, SimulatedEngine(members(2), seconds), journal)
        results = list(run.results())
        assert sum(result.done for result in results) == min(total, sum(result.space for result in results))


def test_problems_that_no_member_can_measure_leave_the_total_to_the_others(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        run = run_of(CrampedEngine(problems(3)[1]), journal, count=3, budget=Budget(total=60))
        assert sum(result.done for result in run.results()) == 60
        assert [skipped.reason for skipped in run.skipped] == ["out of memory"]


def test_failures_are_tried_again_when_asked_for(tmp_path: Path) -> None:
    """The crashes of the first run were the fault of its machine: in the second run all configurations are correct."""
    plan = plan_of(problems(2), options=replace(TUNING, strategy="exhaustive"))
    with Journal(tmp_path / "journal") as journal:
        list(FleetRun(plan, SimulatedEngine(members(2), seconds, cost=0.001), journal).results())
        crashed = sum(record.measurement.status is Status.CRASH for record in journal.records())
        count = len(trials(journal))
        assert crashed > 50
        sound = SimulatedEngine(members(2), lambda *_: 1e-3, cost=0.001)
        later = replace(OPTIONS, wall=lambda: 4e9)  # than what is remembered
        list(FleetRun(replace(plan, retry_failed=True), sound, journal, later).results())
        assert not any(record.measurement.status is Status.CRASH for record in journal.records())
        assert len(trials(journal)) == count
        assert crashed <= sound.measured < crashed + 50
