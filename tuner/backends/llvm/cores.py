"""Cores: the CPUs that threads run on, one of every physical core, and of unequal cores the fast ones.

A kernel's tasks are divided evenly among its threads, so that the slowest core decides about the time. On a phone, a
board or an Apple computer the small cores have less than half of the speed of the large ones, and are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

import psutil

from ...processes import usable_processors
from .arm_features import mac_number

SYSTEM = Path("/sys/devices/system/cpu")  # of Linux
FAST = 0.75  # share of the fastest core's speed; the cores of one kind differ by up to 10 % in their highest clocks
# Linux's files about the speed of a CPU, the first that is there: a share of 1024, on ARM; the highest clock in kHz.
_SPEEDS = ("cpu_capacity", "cpufreq/cpuinfo_max_freq")


def usable_cpus(system: Path = SYSTEM) -> list[int]:
    """One logical CPU of every physical core that this process may use, without those that are far slower."""
    cpus = sorted(usable_processors())
    if sys.platform != "linux":
        return cpus[:_cores_elsewhere() or None]
    cores: dict[str, int] = {}
    for cpu in cpus:
        cores.setdefault(_read(system / f"cpu{cpu}" / "topology" / "thread_siblings_list") or str(cpu), cpu)
    speeds = {cpu: _speed(system / f"cpu{cpu}") for cpu in cores.values()}
    return [cpu for cpu, speed in speeds.items() if speed >= FAST * max(speeds.values())]


def _cores_elsewhere() -> int:
    """The number of fast cores on macOS, of cores on Windows; 0: not known."""
    if sys.platform == "darwin" and (fast := mac_number("hw.perflevel0.physicalcpu")):
        return fast
    return psutil.cpu_count(logical=False) or 0


def _speed(folder: Path) -> int:
    """The speed of a CPU in a unit that all CPUs of a machine share; 0 where the system does not say it."""
    for name in _SPEEDS:
        text = _read(folder / name)
        if text.isdecimal():
            return int(text)
    return 0


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
