"""Accelerators: facts about GPUs that need not be present, so that one can predict and compile for them anywhere.

`described("cuda", "h200")` is the device `cuda:h200`, and `find` knows a model by every name that drivers and projects
use for it. Numbers of units, clocks, caches and rates are in `accelerators.txt`, with their units and sources. Rates
are peaks at the boost clock, not measurements.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from ..files import sections
from .device import Device, Fact

KIBI = 1024
BACKENDS = ("cuda", "triton")  # backends that build kernels for the devices of this table
# Backends whose devices the table describes -> their maker of GPUs (empty: any). aiter's choices are read, not run.
_MAKERS = {"cuda": "nvidia", "triton": "", "aiter": "amd"}
_SERIES = ("nvidia", "amd", "geforce", "gpu", "instinct", "tesla", "radeon")  # words that names leave out
_NAME = re.compile(r"[A-Za-z0-9]+(?:[ _-]+[A-Za-z0-9]+)*")
_UNITS = re.compile(r"(gfx[0-9a-f]{3,4}|sm_[0-9]{2,3})_([0-9]{1,4})")


@dataclass(frozen=True, slots=True)
class Architecture:
    """Limits of one GPU architecture; "unit" is a streaming multiprocessor or an AMD compute unit. None: not known."""

    name: str  # "sm_90", "gfx942"
    lanes: int  # fp32 multiply-adds per unit and clock
    tensor_flop: int | None  # fp16 operations with fp32 accumulation per unit and clock, of dense matrices
    unit_threads: int  # most resident threads
    unit_blocks: int | None  # most resident blocks
    unit_shared: int  # bytes of shared memory
    block_shared: int  # most bytes of shared memory that one block can have
    reserved_shared: int  # bytes of shared memory that the driver takes for each block
    l1_bytes: int  # first-level cache and shared memory together
    unit_registers: int = 65536  # registers of 32 bits
    warp_size: int = 32
    fp8_flop: int | None = None  # as tensor_flop; 0: the unit has no such instructions
    int8_flop: int | None = None
    generation: str = ""  # "Hopper", "CDNA3"


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One model of GPU. None: not known."""

    architecture: str
    chip: str  # the die, "ad102": models that share it are one family
    model: str  # the driver's name
    names: tuple[str, ...]  # other names that projects use
    compute_units: int
    clock_mhz: int | None  # boost
    l2_bytes: int
    l3_bytes: int
    bandwidth_gbs: int
    memory_gib: int
    tensor_flop: int | None  # those of the architecture, unless the model has fewer
    fp8_flop: int | None
    int8_flop: int | None


def _rows(text: str) -> list[dict[str, str]]:
    """The lines of a table as words by column; the last column has the rest of the line."""
    header, *lines = text.strip().splitlines()
    columns = header.split()
    return [dict(zip(columns, line.split(maxsplit=len(columns) - 1), strict=True)) for line in lines]


def _number(text: str) -> int | None:
    return None if text == "-" else int(text)


def _architecture(row: Mapping[str, str]) -> Architecture:
    return Architecture(
        row["name"], int(row["lanes"]), _number(row["fp16"]), int(row["threads"]), _number(row["blocks"]),
        int(row["shared"]) * KIBI, int(row["block"]) * KIBI, int(row["reserved"]) * KIBI, int(row["l1"]) * KIBI,
        int(row["registers"]), int(row["warp"]), _number(row["fp8"]), _number(row["int8"]), row["generation"])


def _accelerator(row: Mapping[str, str]) -> Accelerator:
    limits = ARCHITECTURES[row["arch"]]
    tensor = limits.tensor_flop if row["fp16"] == "=" else _number(row["fp16"])
    fp8 = limits.fp8_flop
    if fp8 and tensor != limits.tensor_flop:
        fp8 = fp8 * tensor // limits.tensor_flop if tensor and limits.tensor_flop else None
    model, *names = (name.strip() for name in row["names"].split(";"))
    return Accelerator(
        row["arch"], row["chip"], model, tuple(names), int(row["units"]), _number(row["mhz"]),
        int(row["l2"]) * KIBI, int(row["l3"]) * KIBI**2, int(row["gbs"]), int(row["gib"]), tensor, fp8,
        limits.int8_flop if row["int8"] == "=" else _number(row["int8"]))


_TABLES = sections(__file__, "accelerators.txt")
ARCHITECTURES: Mapping[str, Architecture] = {
    row["name"]: _architecture(row) for row in _rows(_TABLES["architectures"])}
ACCELERATORS: Mapping[str, Accelerator] = {row["key"]: _accelerator(row) for row in _rows(_TABLES["models"])}


def _words(name: str) -> list[str]:
    """The words of a name without those of makers and series."""
    return [word for word in re.sub(r"[^a-z0-9]+", " ", name.lower()).split() if word not in _SERIES]


_KEYS: Mapping[tuple[str, ...], str] = {
    tuple(sorted(_words(name))): key for key, entry in reversed(list(ACCELERATORS.items()))
    for name in (*entry.names, entry.model, key)}


def find(name: str) -> str | None:
    """The table's name of a model by any name that drivers and projects use for it; None if the table lacks it.

    These are names as drivers print them, with underscores or without the maker's, in any order of words (`RTX_Titan`),
    the table's own (`triton:h100`), and an architecture with its compute units (`gfx942_304`; of several, the first).
    """
    name = name.strip().rpartition(":")[2]
    units = _UNITS.fullmatch(name)
    if units is not None:
        return next((key for key, entry in ACCELERATORS.items()
                     if (entry.architecture, entry.compute_units) == (units[1], int(units[2]))), None)
    return _KEYS.get(tuple(sorted(_words(name)))) if _NAME.fullmatch(name) else None


def slug(model: str) -> str:
    """A model's name as it stands in the name of a device: lower case, words joined by hyphens, without the maker.

    The table's own name where it has the model: "NVIDIA H200" is `h200`, "RTX_2080_Ti" is `rtx-2080-ti`.
    """
    return find(model) or "-".join(_words(model))


def chip_of(device: Device) -> str:
    """The chip of a GPU, which models of one family share; its architecture and model where the table lacks it."""
    key = find(device.model) or find(device.name)
    return ACCELERATORS[key].chip if key is not None else f"{device.architecture} {device.model}".strip()


def described(backend: str, model: str) -> Device | None:
    """The device `backend:model` by the table's facts, or None if the table lacks the backend or the model.

    The backends `cuda` and `aiter` have the GPUs of one maker only. Facts that are not known are left out of `extra`,
    or are 0.
    """
    key = find(model) if ":" not in model else None
    if key is None or backend not in _MAKERS:
        return None
    entry = ACCELERATORS[key]
    nvidia = entry.architecture.startswith("sm_")
    if _MAKERS[backend] not in ("", "nvidia" if nvidia else "amd"):
        return None
    limits = ARCHITECTURES[entry.architecture]
    gigahertz = entry.compute_units * (entry.clock_mhz or 0) / 1000
    more = {name: None if flop is None or not gigahertz else round(flop * gigahertz, 1)
            for name, flop in (("fp8_gflops", entry.fp8_flop), ("int8_gflops", entry.int8_flop))}
    tensor = None if entry.tensor_flop is None or not gigahertz else round(entry.tensor_flop * gigahertz, 1)
    return Device(
        name=f"{backend}:{key}", backend=backend, architecture=entry.architecture,
        instruction_set="ptx" if nvidia else "amdgcn", model=entry.model, threads=0,
        compute_units=entry.compute_units, vector_bits=128, vector_registers=255, l1_bytes=limits.l1_bytes,
        l2_bytes=entry.l2_bytes, l3_bytes=entry.l3_bytes, local_memory=limits.block_shared, max_work_group=1024,
        peak_gflops=round(2 * limits.lanes * gigahertz, 1), bandwidth_gbs=float(entry.bandwidth_gbs),
        extra=(*limit_facts(limits, entry.clock_mhz, tensor), *_known(more), ("memory_gib", entry.memory_gib)))


def limit_facts(limits: Architecture, clock_mhz: int | None, tensor_gflops: float | None,
                ) -> tuple[tuple[str, Fact], ...]:
    """The extra facts of a GPU device, which constraints can name; those that are not known are left out."""
    digits = limits.name.removeprefix("sm_")
    return _known({
        "compute_capability": int(digits) if digits.isdecimal() else 0, "warp_size": limits.warp_size,
        "unit_threads": limits.unit_threads, "unit_blocks": limits.unit_blocks,
        "unit_registers": limits.unit_registers, "unit_shared": limits.unit_shared,
        "reserved_shared": limits.reserved_shared, "clock_mhz": clock_mhz, "tensor_gflops": tensor_gflops})


def _known(facts: Mapping[str, Fact | None]) -> tuple[tuple[str, Fact], ...]:
    return tuple((name, value) for name, value in facts.items() if value is not None)


def similar(model: str, names: Collection[str]) -> list[str]:
    """Up to three of the table's names that are like this one, the most similar first."""
    return get_close_matches(slug(model), names, 3, 0.5)


def similar_names(model: str) -> str:
    """The models of the table whose names are like this one's, for an error message."""
    return ", ".join(similar(model, ACCELERATORS)) or "h100, rtx-4090, mi300x, ..."
