"""Busy processes: they run while they are wanted, end with the measurement, and the page shows a row for each."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from benchmarks.common.page import page_from
from benchmarks.speed.busy_processes import COUNTS, BusyProcesses, beside_busy_processes
from benchmarks.speed.latency import beside, page
from tests.support.paths import ROOT

RESULTS = json.loads((ROOT / "docs" / "results" / "latency.json").read_text())


def stands_still(pid: int) -> bool:
    """Whether a process comes to a stop: the system stops it when it next gets a processor, on a busy machine later."""
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def ticks(pid: int) -> int:
    """The clock ticks for which a process has computed."""
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are watched in /proc")
def test_processes_compute_only_while_they_are_wanted() -> None:
    with BusyProcesses(2) as processes:
        first, second = (process.pid for process in processes._processes)
        processes.want(1)
        assert stands_still(second)
        before, deadline = ticks(first), time.monotonic() + 60
        while ticks(first) == before:  # it gets a processor at some time
            assert time.monotonic() < deadline
        processes.want(0)
        assert stands_still(first)
        assert stands_still(second)
    assert not Path(f"/proc/{first}").exists()
    assert not Path(f"/proc/{second}").exists()


def test_every_number_of_busy_processes_meets_the_same_problems_in_turns() -> None:
    asked: list[int] = []

    def milliseconds(problem: int) -> float | None:
        asked.append(problem)
        return None if problem == 2 else float(problem)

    rows = beside_busy_processes(milliseconds, [1, 2, 3], rounds=2)
    assert asked == [1, 2, 3] * len(COUNTS) * 2
    assert rows == [{"busy": count, "predictions": 4, "median_ms": 3.0, "p90_ms": 3.0} for count in COUNTS]


def test_the_page_has_a_row_for_each() -> None:
    rows = [{"busy": count, "predictions": 9, "median_ms": 8.0 + count, "p90_ms": 12.0} for count in COUNTS]
    text = page_from(page, {**RESULTS, "beside_busy": rows}).markdown()
    assert "| beside a busy process | 9 | 9.0 | 12.0 | 1.12 |" in text
    assert "| beside two busy processes | 9 | 10.0 | 12.0 | 1.25 |" in text


def test_predictions_are_timed_beside_busy_processes() -> None:
    rows = beside("llvm:0", 2, 1)
    assert [row["busy"] for row in rows] == list(COUNTS)
    assert all(0 < row["median_ms"] <= row["p90_ms"] for row in rows)
