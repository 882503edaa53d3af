"""Accelerators: facts about GPUs that need not be present, so that one can predict and compile for them anywhere.

`described("cuda", "h200")` is the device `cuda:h200`. Numbers of streaming multiprocessors, clocks, caches and memory
rates are those of the makers' data sheets and architecture white papers; limits of an architecture are those of the
CUDA C++ Programming Guide (technical specifications per compute capability) and of AMD's instruction set guides. Rates
are peaks at the boost clock, not measurements.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .device import Device, Fact

KIBI = 1024
BACKENDS = ("cuda", "triton")  # backends whose devices this table describes
_WORDS = re.compile(r"[A-Za-z0-9]+(?:[ _-]+[A-Za-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Architecture:
    """Limits of one GPU architecture; "unit" is a streaming multiprocessor or an AMD compute unit."""

    name: str  # "sm_90", "gfx942"
    lanes: int  # fp32 multiply-adds per unit and clock
    tensor_flop: int  # fp16 operations with fp32 accumulation per unit and clock, of dense matrices
    unit_threads: int  # most resident threads
    unit_blocks: int  # most resident blocks
    unit_shared: int  # bytes of shared memory
    block_shared: int  # most bytes of shared memory that one block can have
    reserved_shared: int  # bytes of shared memory that the driver takes for each block
    l1_bytes: int  # first-level cache and shared memory together
    unit_registers: int = 65536  # registers of 32 bits
    warp_size: int = 32


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One model of GPU."""

    architecture: str
    model: str  # the driver's name
    compute_units: int
    clock_mhz: int  # boost
    l2_bytes: int
    bandwidth_gbs: int
    tensor_flop: int = 0  # 0: the architecture's; GeForce cards have half of it


def _nvidia() -> dict[str, Architecture]:
    rows = (
        ("sm_75", 64, 1024, 1024, 16, 64, 64, 0, 96),
        ("sm_80", 64, 2048, 2048, 32, 164, 163, 1, 192),
        ("sm_86", 128, 1024, 1536, 16, 100, 99, 1, 128),
        ("sm_89", 128, 1024, 1536, 24, 100, 99, 1, 128),
        ("sm_90", 128, 4096, 2048, 32, 228, 227, 1, 256),
        ("sm_100", 128, 8192, 2048, 32, 228, 227, 1, 256),
        ("sm_120", 128, 1024, 1536, 24, 100, 99, 1, 128),
    )
    return {name: Architecture(name, lanes, tensor, threads, blocks, unit * KIBI, block * KIBI, reserved * KIBI,
                               l1 * KIBI)
            for name, lanes, tensor, threads, blocks, unit, block, reserved, l1 in rows}


ARCHITECTURES: Mapping[str, Architecture] = {
    **_nvidia(),
    "gfx90a": Architecture("gfx90a", 64, 1024, 2048, 32, 64 * KIBI, 64 * KIBI, 0, 16 * KIBI, 131072, 64),
    "gfx942": Architecture("gfx942", 128, 2048, 2048, 32, 64 * KIBI, 64 * KIBI, 0, 32 * KIBI, 131072, 64),
    "gfx1032": Architecture("gfx1032", 64, 128, 1024, 16, 64 * KIBI, 64 * KIBI, 0, 16 * KIBI, 131072, 32),
    "gfx1100": Architecture("gfx1100", 128, 512, 1024, 16, 64 * KIBI, 64 * KIBI, 0, 32 * KIBI, 196608, 32),
}

_MEBI = 1024 * KIBI
ACCELERATORS: Mapping[str, Accelerator] = {
    "t4": Accelerator("sm_75", "Tesla T4", 40, 1590, 4 * _MEBI, 320),
    "rtx-2080-ti": Accelerator("sm_75", "NVIDIA GeForce RTX 2080 Ti", 68, 1545, 5632 * KIBI, 616, 512),
    "titan-rtx": Accelerator("sm_75", "NVIDIA TITAN RTX", 72, 1770, 6 * _MEBI, 672),
    "a100": Accelerator("sm_80", "NVIDIA A100-SXM4-80GB", 108, 1410, 40 * _MEBI, 2039),
    "a100-40gb": Accelerator("sm_80", "NVIDIA A100-SXM4-40GB", 108, 1410, 40 * _MEBI, 1555),
    "a100-pcie": Accelerator("sm_80", "NVIDIA A100-PCIE-40GB", 108, 1410, 40 * _MEBI, 1555),
    "a800": Accelerator("sm_80", "NVIDIA A800-SXM4-80GB", 108, 1410, 40 * _MEBI, 2039),
    "a10": Accelerator("sm_86", "NVIDIA A10", 72, 1695, 6 * _MEBI, 600),
    "a4000": Accelerator("sm_86", "NVIDIA RTX A4000", 48, 1560, 4 * _MEBI, 448),
    "a40": Accelerator("sm_86", "NVIDIA A40", 84, 1740, 6 * _MEBI, 696),
    "a6000": Accelerator("sm_86", "NVIDIA RTX A6000", 84, 1800, 6 * _MEBI, 768),
    "rtx-3060": Accelerator("sm_86", "NVIDIA GeForce RTX 3060", 28, 1777, 3 * _MEBI, 360, 512),
    "rtx-3060-laptop": Accelerator("sm_86", "NVIDIA GeForce RTX 3060 Laptop GPU", 30, 1425, 3 * _MEBI, 336, 512),
    "rtx-3070": Accelerator("sm_86", "NVIDIA GeForce RTX 3070", 46, 1725, 4 * _MEBI, 448, 512),
    "rtx-3080": Accelerator("sm_86", "NVIDIA GeForce RTX 3080", 68, 1710, 5 * _MEBI, 760, 512),
    "rtx-3090": Accelerator("sm_86", "NVIDIA GeForce RTX 3090", 82, 1695, 6 * _MEBI, 936, 512),
    "l4": Accelerator("sm_89", "NVIDIA L4", 58, 2040, 48 * _MEBI, 300),
    "l20": Accelerator("sm_89", "NVIDIA L20", 92, 2520, 96 * _MEBI, 864, 512),
    "l40": Accelerator("sm_89", "NVIDIA L40", 142, 2490, 96 * _MEBI, 864, 512),
    "l40s": Accelerator("sm_89", "NVIDIA L40S", 142, 2520, 96 * _MEBI, 864),
    "rtx-6000-ada": Accelerator("sm_89", "NVIDIA RTX 6000 Ada Generation", 142, 2505, 96 * _MEBI, 960),
    "rtx-4060": Accelerator("sm_89", "NVIDIA GeForce RTX 4060", 24, 2460, 24 * _MEBI, 272, 512),
    "rtx-4070": Accelerator("sm_89", "NVIDIA GeForce RTX 4070", 46, 2475, 36 * _MEBI, 504, 512),
    "rtx-4080": Accelerator("sm_89", "NVIDIA GeForce RTX 4080", 76, 2505, 64 * _MEBI, 717, 512),
    "rtx-4090": Accelerator("sm_89", "NVIDIA GeForce RTX 4090", 128, 2520, 72 * _MEBI, 1008, 512),
    "h100": Accelerator("sm_90", "NVIDIA H100 80GB HBM3", 132, 1830, 50 * _MEBI, 3352),
    "h100-pcie": Accelerator("sm_90", "NVIDIA H100 PCIe", 114, 1755, 50 * _MEBI, 2039),
    "h800": Accelerator("sm_90", "NVIDIA H800", 132, 1830, 50 * _MEBI, 3352),
    "h20": Accelerator("sm_90", "NVIDIA H20", 78, 1830, 60 * _MEBI, 4000, 1024),  # a quarter of the tensor rate
    "h200": Accelerator("sm_90", "NVIDIA H200", 132, 1830, 60 * _MEBI, 4800),
    "b200": Accelerator("sm_100", "NVIDIA B200", 148, 1850, 126 * _MEBI, 8000),
    "rtx-5070": Accelerator("sm_120", "NVIDIA GeForce RTX 5070", 48, 2512, 48 * _MEBI, 672, 512),
    "rtx-5080": Accelerator("sm_120", "NVIDIA GeForce RTX 5080", 84, 2617, 64 * _MEBI, 960, 512),
    "rtx-5090": Accelerator("sm_120", "NVIDIA GeForce RTX 5090", 170, 2407, 96 * _MEBI, 1792, 512),
    "mi250x": Accelerator("gfx90a", "AMD Instinct MI250X", 110, 1700, 8 * _MEBI, 1638),  # one of its two dies
    "mi300x": Accelerator("gfx942", "AMD Instinct MI300X", 304, 2100, 256 * _MEBI, 5300),
    "mi325x": Accelerator("gfx942", "AMD Instinct MI325X", 304, 2100, 256 * _MEBI, 6000),
    "w6600": Accelerator("gfx1032", "AMD Radeon PRO W6600", 28, 2903, 32 * _MEBI, 224),
    "w7800": Accelerator("gfx1100", "AMD Radeon PRO W7800", 70, 2499, 64 * _MEBI, 576),
}


def slug(model: str) -> str:
    """A model's name as it stands in the name of a device: lower case, words joined by hyphens, without the maker.

    The table's own name where it has the model: "NVIDIA H200" is `h200`, "RTX_2080_Ti" is `rtx-2080-ti`.
    """
    words = re.sub(r"[^a-z0-9]+", " ", model.lower()).split()
    plain = "-".join(word for word in words if word not in ("nvidia", "amd", "geforce", "gpu", "instinct", "tesla",
                                                            "radeon", "pro"))
    for name, entry in ACCELERATORS.items():
        if model == entry.model or plain == name or sorted(plain.split("-")) == sorted(name.split("-")):
            return name
    return plain


def described(backend: str, model: str) -> Device | None:
    """The device `backend:model` by the table's facts, or None if the table lacks the backend or the model.

    The backend `cuda` has NVIDIA's GPUs only. Words of the model stand between spaces, hyphens and underscores.
    """
    entry = ACCELERATORS.get(slug(model)) if _WORDS.fullmatch(model.strip()) else None
    if entry is None or backend not in BACKENDS or (backend == "cuda" and not entry.architecture.startswith("sm_")):
        return None
    limits = ARCHITECTURES[entry.architecture]
    gigahertz = entry.compute_units * entry.clock_mhz / 1000
    tensor_flop = entry.tensor_flop or limits.tensor_flop
    return Device(
        name=f"{backend}:{slug(model)}", backend=backend, architecture=entry.architecture,
        instruction_set="ptx" if entry.architecture.startswith("sm_") else "amdgcn", model=entry.model, threads=0,
        compute_units=entry.compute_units, vector_bits=128, vector_registers=255, l1_bytes=limits.l1_bytes,
        l2_bytes=entry.l2_bytes, local_memory=limits.block_shared, max_work_group=1024,
        peak_gflops=round(2 * limits.lanes * gigahertz, 1), bandwidth_gbs=float(entry.bandwidth_gbs),
        extra=limit_facts(limits, entry.clock_mhz, round(tensor_flop * gigahertz, 1)))


def limit_facts(limits: Architecture, clock_mhz: int, tensor_gflops: float) -> tuple[tuple[str, Fact], ...]:
    """The extra facts of a GPU device, which constraints can name."""
    digits = limits.name.removeprefix("sm_")
    return (("compute_capability", int(digits) if digits.isdecimal() else 0), ("warp_size", limits.warp_size),
            ("unit_threads", limits.unit_threads), ("unit_blocks", limits.unit_blocks),
            ("unit_registers", limits.unit_registers), ("unit_shared", limits.unit_shared),
            ("reserved_shared", limits.reserved_shared), ("clock_mhz", clock_mhz), ("tensor_gflops", tensor_gflops))


def described_names(backend: str) -> tuple[str, ...]:
    """The names of all devices that the table describes for a backend."""
    return tuple(device.name for model in ACCELERATORS if (device := described(backend, model)) is not None)
