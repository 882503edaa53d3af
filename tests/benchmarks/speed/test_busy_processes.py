"""Busy processes: they run while they are wanted, end with the measurement, and the page shows a row for each."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from benchmarks.speed.busy_processes import BusyProcesses


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


