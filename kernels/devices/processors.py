"""Processors: facts about ARM CPUs that need not be present, so that one can predict and compile for them anywhere.

`described("neoverse-v1")` is the device `llvm:neoverse-v1`. Numbers of cores, clocks, caches and memory rates are those
of one machine with these cores, by the makers' technical reference manuals, software optimisation guides and data
sheets. Rates are peaks, not measurements: multiply-adds of all vector units at the highest clock, and of memory's
channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .device import Device

KIBI, MEBI = 1024, 1024 * 1024
BACKEND = "llvm"


@dataclass(frozen=True, slots=True)
class Processor:
    """A kind of core, and one machine with it. Caches are those that a core can use, in bytes."""

    model: str
    instruction_set: str
    vector_bits: int
    units: int  # that compute a vector of multiply-adds in a clock
    cores: int  # the fast ones
    clock_mhz: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    bandwidth_gbs: float
    capabilities: tuple[str, ...] = ()  # of device.CAPABILITIES
    triple: str = "aarch64-unknown-linux-gnu"  # LLVM's name of machine and system


_NEW = ("arm_fp16", "arm_bf16", "arm_i8mm")
# LLVM's name of the core -> the processor. A Cortex-A53 computes 64 bits of a vector in a clock, in each of two units.
PROCESSORS: Mapping[str, Processor] = {
    "cortex-a53": Processor("Raspberry Pi 3B+", "neon", 128, 1, 4, 1400, 32 * KIBI, 512 * KIBI, 0, 3.6),
    "cortex-a72": Processor("Raspberry Pi 4B", "neon", 128, 1, 4, 1500, 32 * KIBI, MEBI, 0, 12.8),
    "cortex-a76": Processor("Raspberry Pi 5", "neon", 128, 2, 4, 2400, 64 * KIBI, 512 * KIBI, 2 * MEBI, 17.1,
                            ("arm_fp16",)),
    "neoverse-n1": Processor("AWS Graviton2", "neon", 128, 2, 64, 2500, 64 * KIBI, MEBI, 32 * MEBI, 204.8,
                             ("arm_fp16",)),
    "neoverse-v1": Processor("AWS Graviton3", "sve256", 256, 2, 64, 2600, 64 * KIBI, MEBI, 32 * MEBI, 307.2, _NEW),
    "neoverse-v2": Processor("AWS Graviton4", "neon", 128, 4, 96, 2800, 64 * KIBI, 2 * MEBI, 36 * MEBI, 537.6, _NEW),
    "a64fx": Processor("Fujitsu A64FX", "sve512", 512, 2, 48, 2200, 64 * KIBI, 8 * MEBI, 0, 1024, ("arm_fp16",)),
    "apple-m1": Processor("Apple M1", "neon", 128, 4, 4, 3200, 128 * KIBI, 12 * MEBI, 0, 68.3, ("arm_fp16",),
                          "arm64-apple-macosx11.0.0"),
}


def described(name: str) -> Device | None:
    """The device `llvm:NAME` by the table's facts, or None if the table lacks it."""
    entry = PROCESSORS.get(name)
    if entry is None:
        return None
    lanes = entry.units * entry.vector_bits // 32
    return Device(
        name=f"{BACKEND}:{name}", backend=BACKEND, architecture=name, instruction_set=entry.instruction_set,
        model=entry.model, threads=entry.cores, compute_units=entry.cores, vector_bits=entry.vector_bits,
        vector_registers=32, l1_bytes=entry.l1_bytes, l2_bytes=entry.l2_bytes, l3_bytes=entry.l3_bytes,
        peak_gflops=round(2 * lanes * entry.cores * entry.clock_mhz / 1000, 1),
        bandwidth_gbs=float(entry.bandwidth_gbs), extra=tuple((fact, 1) for fact in entry.capabilities))


def caches(name: str) -> dict[int, int]:
    """The data caches of a core by LLVM's name: level -> bytes; empty for one that the table lacks."""
    entry = PROCESSORS.get(name)
    return {} if entry is None else {1: entry.l1_bytes, 2: entry.l2_bytes, 3: entry.l3_bytes}
