"""A run of a simulated fleet: the same records as on one machine; members that are unlike do not mix."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from seqtune.data.journal.journal import Journal
from seqtune.data.record import Status
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.fleet.batch import MeasuringBatch
from seqtune.tuner.fleet.member_state import FleetProgress, MemberPhase
from seqtune.tuner.fleet.run import FleetRun
from seqtune.tuner.run.local_run import tune
from seqtune.tuner.run.plan import Budget, Finals, TuningOptions
from tests.support.fleet.engine import SimulatedEngine
from tests.support.fleet.simulated import (
    DEVICE,
    KERNEL,
    OTHER,
    TUNING,
    TrueMeasurer,
    contents,
    members,
    plan_of,
    problems,
    seconds,
    untrue,
)


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("strategy", ["random", "exhaustive", "evolutionary"])
def test_a_fleet_makes_the_same_records_as_one_machine(tmp_path: Path, strategy: str, count: int) -> None:
    options = TuningOptions(strategy, seed=3, batch=20)  # enough for five members, so that rounds are equal
    budget = Budget(trials=150 if strategy == "evolutionary" else 60)
    problem, = problems(1)
    with Journal(tmp_path / "alone") as alone, Journal(tmp_path / "fleet") as together:
        expected = tune(Task.of(problem, DEVICE, [KERNEL]), alone, TrueMeasurer(), budget, options)
        run = FleetRun(plan_of([problem], budget, options), SimulatedEngine(members(count), seconds), together)
        result, = run.results()
        assert contents(together) == contents(alone)
        assert result.configuration == expected.configuration
        assert (result.done, result.resumed) == (expected.done, 0)


@pytest.mark.parametrize("noisy", [False, True])
def test_noisy_finals_are_held_again_for_longer(tmp_path: Path, noisy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Spied(SimulatedEngine):
        def submit(self, name: str, batch: MeasuringBatch) -> None:
            rounds.append(batch.rounds)
            super().submit(name, batch)

    monkeypatch.setattr("seqtune.tuner.fleet.group_search.are_noisy", lambda measured, finals: noisy)
    rounds: list[int] = []
    with Journal(tmp_path / "journal") as journal:
        plan = plan_of(problems(1), Budget(trials=20), TuningOptions("random", seed=3))
        list(FleetRun(plan, Spied(members(2), seconds), journal).results())
    finals = Finals()
    assert (finals.more_rounds in rounds) == noisy
    assert finals.rounds in rounds


def test_alike_members_share_trials_and_unlike_ones_have_their_own(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        engine = SimulatedEngine(members(4) + members(2, OTHER, "other"), seconds)
        run = FleetRun(plan_of(problems(3), Budget(trials=100)), engine, journal)
        results = list(run.results())
        assert [(len(result.members), result.done) for result in results].count((4, 100)) == 3
        assert [(len(result.members), result.done) for result in results].count((2, 100)) == 3
        records = list(journal.records(run="random"))
        assert len({record.identity for record in records}) == len(records) == 600
        assert {record.host for record in records if record.machine == OTHER.fingerprint} == {"other0", "other1"}
        assert not untrue(list(journal.records()), [DEVICE, OTHER])
        assert engine.busy == pytest.approx(0.05 * engine.measured)
        assert engine.measured < 1.15 * 600  # controls and finals


def test_a_second_run_measures_nothing_again(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        for expected in (0, 50):
            engine = SimulatedEngine(members(2), seconds)
            results = list(FleetRun(plan_of(problems(2), Budget(trials=50)), engine, journal).results())
            assert [result.resumed for result in results] == [expected, expected]
        assert engine.measured == 2 * 3  # the members' first controls


def test_many_members_share_one_problem(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        engine = SimulatedEngine(members(50), seconds)
        options = TuningOptions("random", finals=Finals(count=0))
        result, = FleetRun(plan_of(problems(1), Budget(trials=400), options), engine, journal).results()
        assert result.done == 400
        assert engine.clock < 6  # alone it takes 20 s
        assert len({record.host for record in journal.records()}) == 50


@pytest.mark.parametrize("count", [1, 10])
def test_members_measure_trials_for_nine_tenths_of_the_time(tmp_path: Path, count: int) -> None:
    plan = plan_of(problems(2 * count), Budget(trials=400), TuningOptions("random", finals=Finals(count=0)))
    with Journal(tmp_path / "journal") as journal:
        engine = SimulatedEngine(members(count), seconds)
        run = FleetRun(plan, engine, journal)
        assert sum(result.done for result in run.results()) == 800 * count
    assert 0.9 * engine.clock < 800 * 0.05, "controls, messages and the last problems take the rest"


def test_a_budget_in_seconds_is_what_one_machine_would_have_had(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        run = FleetRun(plan_of(problems(1), Budget(seconds=2.0)), SimulatedEngine(members(4), seconds), journal)
        result, = run.results()
        assert 25 <= result.done <= 80  # 40 would be exact; what is under way counts


def test_problems_that_no_kernel_solves_are_left_out_with_the_reason(tmp_path: Path) -> None:
    hopeless = Problem.make("gemm", m=2000, n=4, k=5)
    with Journal(tmp_path / "journal") as journal:
        plan = plan_of([hopeless, *problems(1), *problems(1)], Budget(trials=5))
        run = FleetRun(plan, SimulatedEngine(members(1), seconds), journal)
        assert len(list(run.results())) == 1
        skipped, = run.skipped
        assert (skipped.problem, skipped.device) == (hopeless, DEVICE)
        assert "too large" in skipped.reason
        none = FleetRun(plan_of([hopeless], Budget(trials=5)), SimulatedEngine(members(1), seconds), journal)
        assert list(none.results()) == []
        assert list(FleetRun(plan_of([]), SimulatedEngine([], seconds), journal).results()) == []


def test_progress_tells_what_every_member_does(tmp_path: Path) -> None:
    reports: list[FleetProgress] = []
    with Journal(tmp_path / "journal") as journal:
        run = FleetRun(plan_of(problems(4), Budget(trials=100)), SimulatedEngine(members(2), seconds), journal,
                       reports.append)
        list(run.results())
    middle, last = reports[len(reports) // 2], reports[-1]
    assert [member.phase for member in middle.members] == [MemberPhase.MEASURING] * 2
    assert middle.total == last.total == last.done == 400
    assert sum(member.done for member in last.members) == 400 + 4 * 3  # with the finals
    assert 30 < middle.rate <= 40.5
    assert middle.seconds_left == pytest.approx(400 / 40 - middle.seconds, abs=3)
    assert last.to_json()["done"] == 400


def test_failures_are_tried_again_when_asked_for(tmp_path: Path) -> None:
    """The crashes of the first run were the fault of its machine: in the second run all configurations are correct."""
    plan = plan_of(problems(2), options=replace(TUNING, strategy="exhaustive"))
    with Journal(tmp_path / "journal") as journal:
        list(FleetRun(plan, SimulatedEngine(members(2), seconds, cost=0.001), journal).results())
        crashed = sum(record.measurement.status is Status.CRASH for record in journal.records())
        count = len(list(journal.records(run="exhaustive")))
        assert crashed > 50
        sound = SimulatedEngine(members(2), lambda *_: 1e-3, cost=0.001)
        later = FleetRun(replace(plan, retry_failed=True), sound, journal, wall=lambda: 4e9)  # than what is remembered
        list(later.results())
        assert not any(record.measurement.status is Status.CRASH for record in journal.records())
        assert len(list(journal.records(run="exhaustive"))) == count
        assert crashed <= sound.measured < crashed + 50
