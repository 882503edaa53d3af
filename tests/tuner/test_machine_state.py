"""MachineState: quotas of control groups, governors and hypervisors, from files like those of Linux."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from seqtune.tuner.machine_state import MachineState

V1 = "sys__fs__cgroup__cpu__cpu_dot_cfs_"  # names of control groups of version 1
CLOCK = "sys__devices__system__cpu__cpu0__cpufreq__scaling_"


def write(system: Path, **files: str) -> Path:
    """A system with these files; `__` in a name stands for a slash."""
    for name, text in files.items():
        path = system / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return system


@pytest.mark.parametrize(("files", "quota"), [
    ({}, None),
    ({"proc__self__cgroup": "0::/", "sys__fs__cgroup__cpu_dot_max": "150000 100000"}, 1.5),
    ({"proc__self__cgroup": "0::/a/b", "sys__fs__cgroup__a__cpu_dot_max": "50000 100000",
      "sys__fs__cgroup__a__b__cpu_dot_max": "max 100000"}, 0.5),
    ({"proc__self__cgroup": "0::/", "sys__fs__cgroup__cpu_dot_max": "max 100000"}, None),
    ({V1 + "quota_us": "200000", V1 + "period_us": "100000"}, 2.0),
    ({V1 + "quota_us": "-1", V1 + "period_us": "100000"}, None),
    ({"proc__self__cgroup": "0::/", "sys__fs__cgroup__cpu_dot_max": "nonsense"}, None)])
def test_the_least_quota_around_this_process_counts(files: dict[str, str], quota: float | None, tmp_path: Path) -> None:
    assert MachineState.now(write(tmp_path, **files)).quota == quota


@pytest.mark.parametrize(("driver", "governor", "slowed"), [
    ("acpi-cpufreq", "powersave", True), ("intel_pstate", "powersave", False), ("amd-pstate-epp", "powersave", False),
    ("acpi-cpufreq", "performance", False), ("intel_cpufreq", "schedutil", False)])
def test_a_governor_that_holds_the_lowest_frequency_is_told_from_one_that_follows_the_load(
        driver: str, governor: str, slowed: bool, tmp_path: Path) -> None:
    state = MachineState.now(write(tmp_path, **{CLOCK + "driver": driver, CLOCK + "governor": governor}))
    assert state.governors == (f"{driver}:{governor}",)
    assert state.slowed is slowed
    assert not replace(state, governors=()).slowed
