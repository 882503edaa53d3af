"""MachineState: what the system says about its processors and their clock, as far as times depend on it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from .backends.llvm.cores import usable_cpus
from .processes import processors

SYSTEM = Path("/")  # the root of /proc and /sys, which only Linux has
# Drivers whose governor "powersave" follows the load; with others it means the lowest frequency.
# https://docs.kernel.org/admin-guide/pm/intel_pstate.html, amd-pstate.html
FOLLOWING = ("intel_pstate", "amd-pstate-epp")


@dataclass(frozen=True, slots=True)
class MachineState:
    """The processors that this process may use, and what limits them."""

    processors: int  # logical CPUs that this process may use
    cores: int  # physical cores among them; hyperthreads of one core count once
    quota: float | None  # CPUs' worth of time that a container gives to this process; None without a limit
    governors: tuple[str, ...]  # governors of the clock, as "driver:governor"; empty where the system shows none
    on_battery: bool
    virtual: bool  # whether this is a virtual machine, as far as the processor tells

    @classmethod
    def now(cls, system: Path = SYSTEM) -> MachineState:
        """Read the state from the system's files; what cannot be read is not limited."""
        battery = getattr(psutil, "sensors_battery", lambda: None)()
        return cls(processors(), len(usable_cpus()), _quota(system), _governors(system),
                   battery is not None and not battery.power_plugged, _is_virtual(system))

    @property
    def slowed(self) -> bool:
        """Whether a governor holds the clock at its lowest frequency."""
        return any(governor.endswith(":powersave") and not governor.startswith(FOLLOWING)
                   for governor in self.governors)


def _quota(system: Path) -> float | None:
    """The least quota of this process's control group and those around it (versions 1 and 2), in CPUs."""
    quotas = []
    with suppress(OSError, ValueError):
        name = next(line for line in _text(system / "proc/self/cgroup").splitlines() if line.startswith("0::"))[4:]
        top = system / "sys/fs/cgroup"
        for folder in ((top / name), *(top / name).parents):
            with suppress(OSError, ValueError):
                used, period = _text(folder / "cpu.max").split()
                if used != "max":
                    quotas.append(int(used) / int(period))
            if folder == top:
                break
    with suppress(OSError, ValueError):
        folder = system / "sys/fs/cgroup/cpu"
        used = _text(folder / "cpu.cfs_quota_us")
        if int(used) > 0:
            quotas.append(int(used) / int(_text(folder / "cpu.cfs_period_us")))
    return min(quotas, default=None)


def _governors(system: Path) -> tuple[str, ...]:
    """The distinct drivers and governors of all CPUs' clocks."""
    found = set()
    for folder in system.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq"):
        with suppress(OSError):
            found.add(f"{_text(folder / 'scaling_driver')}:{_text(folder / 'scaling_governor')}")
    return tuple(sorted(found))


def _is_virtual(system: Path) -> bool:
    """Whether the processor says that a hypervisor runs this system."""
    with suppress(OSError):
        flags = next((line for line in _text(system / "proc/cpuinfo").splitlines() if line.startswith("flags")), "")
        return "hypervisor" in flags.split()
    return False


def _text(path: Path) -> str:
    """A small file of the system as text."""
    return path.read_text(errors="replace").strip()
