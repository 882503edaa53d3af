"""A run of a simulated fleet: the same records as on one machine; members that are unlike do not mix."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fleet.simulated_engine import SimulatedEngine
from seqtune.data.journal import Journal
from seqtune.errors import SeqtuneError
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.fleet.fleet_options import FleetOptions
from seqtune.tuner.fleet.fleet_run import FleetRun
from seqtune.tuner.fleet.progress import FleetProgress, MemberPhase
from seqtune.tuner.tune import tune
from seqtune.tuner.tuning_options import Budget, Finals, TuningOptions
from tests.support.fleet.simulated import (
    DEVICE,
    KERNEL,
    OPTIONS,
    OTHER,
    TrueMeasurer,
    contents,
    members,
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
        run = FleetRun([problem], SimulatedEngine(members(count), seconds), together, budget, FleetOptions(options),
                       [KERNEL])
        result, = run.results()
        assert contents(together) == contents(alone)
        assert result.result.configuration == expected.configuration
        assert (result.result.done, result.result.resumed) == (expected.done, 0)


def test_alike_members_share_trials_and_unlike_ones_have_their_own(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        engine = SimulatedEngine(members(4) + members(2, OTHER, "other"), seconds)
        run = FleetRun(problems(3), engine, journal, Budget(trials=100), OPTIONS, [KERNEL])
        results = list(run.results())
        assert [(len(result.members), result.result.done) for result in results].count((4, 100)) == 3
        assert [(len(result.members), result.result.done) for result in results].count((2, 100)) == 3
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
            results = list(FleetRun(problems(2), engine, journal, Budget(trials=50), OPTIONS, [KERNEL]).results())
            assert [result.result.resumed for result in results] == [expected, expected]
        assert engine.measured == 2 * 3  # the members' first controls


def test_many_members_share_one_problem(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        engine = SimulatedEngine(members(50), seconds)
        options = FleetOptions(TuningOptions("random", finals=Finals(count=0)))
        result, = FleetRun(problems(1), engine, journal, Budget(trials=400), options, [KERNEL]).results()
        assert result.result.done == 400
        assert engine.clock < 6  # alone it takes 20 s
        assert len({record.host for record in journal.records()}) == 50


def test_a_budget_in_seconds_is_what_one_machine_would_have_had(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        run = FleetRun(problems(1), SimulatedEngine(members(4), seconds), journal, Budget(seconds=2.0), OPTIONS,
                       [KERNEL])
        result, = run.results()
        assert 25 <= result.result.done <= 80  # 40 would be exact; what is under way counts


def test_problems_that_no_kernel_solves_are_left_out_with_the_reason(tmp_path: Path) -> None:
    hopeless = Problem.make("gemm", m=2000, n=4, k=5)
    with Journal(tmp_path / "journal") as journal:
        run = FleetRun([hopeless, *problems(1), *problems(1)], SimulatedEngine(members(1), seconds), journal,
                       Budget(trials=5), OPTIONS, [KERNEL])
        assert len(list(run.results())) == 1
        (problem, device, reason), = run.skipped
        assert (problem, device) == (hopeless, DEVICE)
        assert "too large" in reason
        none = FleetRun([hopeless], SimulatedEngine(members(1), seconds), journal, Budget(trials=5), OPTIONS, [KERNEL])
        assert list(none.results()) == []
        assert list(FleetRun([], SimulatedEngine([], seconds), journal).results()) == []


def test_a_fleet_that_nobody_joins_is_given_up(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal, pytest.raises(SeqtuneError, match="no member has joined the fleet"):
        list(FleetRun(problems(1), SimulatedEngine([], seconds), journal, options=OPTIONS).results())


def test_progress_tells_what_every_member_does(tmp_path: Path) -> None:
    reports: list[FleetProgress] = []
    with Journal(tmp_path / "journal") as journal:
        options = FleetOptions(OPTIONS.tuning, on_fleet_progress=reports.append)
        run = FleetRun(problems(4), SimulatedEngine(members(2), seconds), journal, Budget(trials=100), options,
                       [KERNEL])
        list(run.results())
    middle, last = reports[len(reports) // 2], reports[-1]
    assert [member.phase for member in middle.members] == [MemberPhase.MEASURING] * 2
    assert middle.total == last.total == last.done == 400
    assert sum(member.done for member in last.members) == 400 + 4 * 3  # with the finals
    assert 30 < middle.rate <= 40.5
    assert middle.seconds_left == pytest.approx(400 / 40 - middle.seconds, abs=3)
    assert last.to_json()["done"] == 400
