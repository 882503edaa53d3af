"""Facts about this CPU: model, caches, and its measured rates."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import llvmlite.binding as llvm

from seqtune.kernels.devices import processors
from seqtune.kernels.devices.device import MEASURED

from ..measured_rates import RATES, RateCache
from .arm_features import mac_number, mac_variable
from .compiler import toolchain
from .cores import SYSTEM, usable_cpus
from .probe import Rates, probe

# Where Linux has the manufacturer's name: of x86 CPUs, and of boards with other CPUs.
_CPUS, _BOARD = Path("/proc/cpuinfo"), Path("/proc/device-tree/model")
_COMMON = {1: 32 << 10, 2: 512 << 10, 3: 0}  # bytes of the data caches of a core where the system does not report them


@lru_cache(maxsize=1)
def cpu_model() -> str:
    """The manufacturer's name of this CPU, or of the board with it."""
    with suppress(OSError):
        for line in _CPUS.read_text().splitlines():
            if line.lower().startswith("model name"):
                return line.partition(":")[2].strip()
    with suppress(OSError):
        if name := _BOARD.read_text().strip("\0 \n"):
            return name
    brand = mac_variable("machdep.cpu.brand_string") if sys.platform == "darwin" else b""
    return brand.strip(b"\0").decode(errors="replace") or platform.processor() or platform.machine()


def cpu_name() -> str:
    """LLVM's name of this CPU, such as "znver4"."""
    return str(llvm.get_host_cpu_name())


@lru_cache(maxsize=1)
def caches() -> dict[int, int]:
    """The data caches of a core that threads run on: level -> bytes."""
    if sys.platform == "darwin":
        return mac_caches()
    sizes = linux_caches(SYSTEM / f"cpu{next(iter(usable_cpus()), 0)}" / "cache")
    return {**_COMMON, **(sizes or processors.caches(cpu_name()))}


def linux_caches(folder: Path) -> dict[int, int]:
    """The data caches that Linux reports in a CPU's folder; empty where it does not, as on some boards."""
    sizes: dict[int, int] = {}
    for index in folder.glob("index*"):
        with suppress(OSError, ValueError):
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
            if kind != "Instruction":
                sizes[int(level)] = int(size[:-1]) << (10 if size.endswith("K") else 20)
    return sizes


def mac_caches(number: Callable[[str], int] = mac_number) -> dict[int, int]:
    """The data caches of macOS's fast cores; `number` reads a variable."""
    names = {1: ("hw.perflevel0.l1dcachesize", "hw.l1dcachesize"), 2: ("hw.perflevel0.l2cachesize", "hw.l2cachesize"),
             3: ("hw.perflevel0.l3cachesize", "hw.l3cachesize")}
    return {level: next(filter(None, map(number, variables)), _COMMON[level]) for level, variables in names.items()}


def measured_rates(instruction_set: str, threads: int, cache: RateCache = RATES,
                   measure: Callable[[str, int, Mapping[int, int]], Rates] = probe,
                   cache_sizes: Mapping[int, int] | None = None) -> Rates:
    """The device's measured facts by name; measured once for a CPU and a toolchain, then read from the cache.

    `cache_sizes` are those of `caches` by default.
    """
    levels = caches() if cache_sizes is None else cache_sizes
    sizes = " ".join(f"l{level}={size}" for level, size in sorted(levels.items()))
    key = f"{cpu_model()} | {sizes} | {cpu_name()} | {toolchain()} | {instruction_set}:{threads}"
    return cache.rates("cpu-rates.json", key, lambda rates: {name: float(rates[name]) for name in MEASURED},
                       lambda: measure(instruction_set, threads, levels))
