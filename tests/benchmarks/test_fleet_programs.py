"""Tests of the program that simulates fleets, with small fleets."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fleet import fleet_scale


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
