"""Tests of the programs that simulate fleets, with small fleets."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fleet import chaos, fleet_scale
from benchmarks.fleet.injected_faults import planned_faults
from benchmarks.fleet.simulated_fault import FaultKind
from benchmarks.fleet.simulated_work import members


def test_a_small_campaign_of_faults_loses_and_doubles_nothing() -> None:
    results = chaos.chaos(count=10, faults=18, campaigns=1, seed=1)
    assert [results[name] for name in ("lost", "doubled", "unexpected", "false")] == [0, 0, 0, 0]
    assert results["records"] == 10 * 2 * chaos.TRIALS
    assert results["faults"] > 10  # some begin after the end
    assert all(row["unrecovered"] == 0 for row in results["kinds"])
    page = chaos.page({"date": "2026-01-01", **results})
    assert "0 trials lost, 0 doubled, 0 with a time that is not the true one" in page.claim


def test_every_kind_of_fault_is_planned_and_hosts_are_lost_as_a_whole() -> None:
    faults = planned_faults(chaos.fleet(), 40, 100.0, 0)
    assert {fault.kind for fault in faults} == set(FaultKind)
    begins = [fault.begin for fault in faults]
    assert len(begins) - len(set(begins)) == 7  # hosts with two devices: 3 are lost, 4 are busy
    assert planned_faults(chaos.fleet(), 40, 100.0, 0) == faults
    assert len({member.name for member in chaos.fleet()}) == 2 * chaos.HOSTS
    assert len(members(3)) == 3


def test_the_size_of_a_fleet_is_measured_with_a_real_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_scale, "SECONDS", 8.0)
    monkeypatch.setattr(fleet_scale, "TRIALS", 40)
    rows = [fleet_scale.simulate(size, tmp_path) for size in (1, 4)]
    assert [row["trials"] for row in rows] == [160, 640]
    assert all(0.3 < row["efficiency"] < 1 and 0 < row["driver"] < 0.1 for row in rows)
    fleet_scale.draw(tmp_path / "figure.svg", rows)
    assert (tmp_path / "figure.svg").stat().st_size > 1000
    page = fleet_scale.page({"machine": {}, "rows": [{**row, "efficiency": 0.95} for row in rows]})
    assert "One driver keeps 4 devices busy for 95 % of their time" in page.claim
    assert fleet_scale.knee(rows) in (0, 1, 4)
