"""Facts about this CPU: model, caches, and its measured rates."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import llvmlite.binding as llvm

from seqtune.kernels.devices.device import MEASURED

from ..measured_rates import RATES, RateCache
from .compiler import toolchain
from .probe import Rates, probe


@lru_cache(maxsize=1)
def cpu_model() -> str:
    """The manufacturer's name of this CPU."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.lower().startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cpu_name() -> str:
    """LLVM's name of this CPU, such as "znver4"."""
    return str(llvm.get_host_cpu_name())


@lru_cache(maxsize=1)
def caches() -> dict[int, int]:
    """The data caches of one core: level -> bytes. Common sizes where the system does not report them."""
    sizes = {1: 32 << 10, 2: 512 << 10, 3: 0}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
            if kind != "Instruction":
                sizes[int(level)] = int(size[:-1]) << (10 if size.endswith("K") else 20)
        except (OSError, ValueError):
            continue
    return sizes


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
