"""Facts about AMD GPUs, under the names that MIOpen uses in its files. No GPU is opened.

A file name begins with the architecture and the compute units, in decimal after `_` or, above 64, in hexadecimal:
`gfx906_60.db`, `gfx90878.HIP.fdb.txt`. Users give the facts that the tables lack: `gfx1201_32 compute_units=64`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from seqtune.errors import DeviceError, FormatError
from seqtune.kernels.devices.accelerators import ACCELERATORS, find
from seqtune.kernels.devices.device import Device, Fact

from .solver import BACKEND

_NAME = re.compile(r"(gfx(?:[89][0-9a-f]{2}|1[0-9a-f]{3}))(?:_(\d{1,3})|([0-9a-f]{2,3}))?(?=$|[^0-9a-z])")

# The facts that the solvers' constraints name. `legacy`: MIOpen still runs its deprecated solvers there.
_GCN: dict[str, Fact] = {"wave_size": 64, "scalar_registers": 102, "group_waves": 16, "dot2": 0, "matrix_units": 0,
                         "legacy": 0, "alloc_bytes": 1 << 34}
_GENERATIONS: dict[str, dict[str, Fact]] = {
    "gfx8": {"generation": 8, "legacy": 1}, "gfx9": {"generation": 9},
    "gfx10": {"generation": 10}, "gfx11": {"generation": 11}, "gfx12": {"generation": 12},
}
_ARCHITECTURES: dict[str, dict[str, Fact]] = {
    "gfx803": {}, "gfx900": {"legacy": 1}, "gfx906": {"legacy": 1, "dot2": 1},
    "gfx908": {"legacy": 1, "dot2": 1, "matrix_units": 1}, "gfx90a": {"legacy": 1, "dot2": 1, "matrix_units": 1},
    "gfx940": {"matrix_units": 1}, "gfx941": {"matrix_units": 1}, "gfx942": {"matrix_units": 1},
    "gfx950": {"matrix_units": 1}, "gfx1030": {"legacy": 1}, "gfx1031": {"legacy": 1}, "gfx1032": {"legacy": 1},
}
# Model and fp32 GFLOP/s without matrix units, as the maker rounds them and the checkpoint `miopen` learned them. They
# differ by up to 1 % from those of the table of accelerators, which has all other figures.
CARDS: dict[tuple[str, int], tuple[str, float]] = {
    ("gfx803", 36): ("Radeon RX 580", 6175),
    ("gfx803", 64): ("Radeon R9 Fury X", 8602),
    ("gfx900", 56): ("Radeon RX Vega 56", 10544),
    ("gfx900", 64): ("Radeon RX Vega 64", 12583),
    ("gfx906", 60): ("Radeon Instinct MI50", 13300),
    ("gfx906", 64): ("Radeon Instinct MI60", 14746),
    ("gfx908", 120): ("Instinct MI100", 23100),
    ("gfx90a", 104): ("Instinct MI210", 22600),
    ("gfx90a", 110): ("Instinct MI250X, one die", 23950),
    ("gfx942", 228): ("Instinct MI300A", 122600),
    ("gfx942", 304): ("Instinct MI300X", 163400),
    ("gfx1030", 72): ("Radeon RX 6800 XT", 20740),
    ("gfx1030", 80): ("Radeon RX 6900 XT", 23040),
    ("gfx1031", 40): ("Radeon RX 6700 XT", 13210),
    ("gfx1100", 96): ("Radeon RX 7900 XTX", 61390),
    ("gfx1100", 84): ("Radeon RX 7900 XT", 51480),
    ("gfx1101", 60): ("Radeon RX 7800 XT", 37320),
}
_EXTRA = ("generation", *_GCN)


def device(words: str) -> Device:
    """The device described by a name and optional facts: `gfx906_60`, `miopen:gfx906_60 local_memory=32768`.

    Given facts replace those of the table. Raises DeviceError.
    """
    name, *facts = words.split() or [""]
    name = name.removeprefix(f"{BACKEND}:")
    match = re.fullmatch(_NAME, name)
    stated = _stated_facts(facts)
    if not stated.keys().isdisjoint(("name", "backend")):
        raise DeviceError(f"{words!r:.60}: name and backend of a GPU cannot be facts; write the name before its facts")
    if match is None and "architecture" not in stated:
        raise DeviceError(f"{name!r:.60} is no AMD GPU as MIOpen names them (gfx906_60, gfx90878); "
                          "or write architecture=... compute_units=... after the name")
    architecture = str(stated.pop("architecture", match[1] if match else name))
    generation = next((prefix for prefix in sorted(_GENERATIONS, key=len, reverse=True)
                       if architecture.startswith(prefix) and len(architecture) == len(prefix) + 2), None)
    if generation is None and "generation" not in stated:
        raise DeviceError(f"the generation of {architecture:.40} is unknown here; write generation=... after the name")
    units = stated.pop("compute_units", _units(match, architecture) if match else 0)
    if not isinstance(units, int) or not 0 < units <= 4096:
        raise DeviceError(f"unknown number of compute units of {name:.60}; write compute_units=... after the name")
    extra: dict[str, Fact] = {**_GCN, **_GENERATIONS.get(generation or "", {}), **_ARCHITECTURES.get(architecture, {})}
    extra |= {key: stated.pop(key) for key in _EXTRA if key in stated}
    model, peak = CARDS.get((architecture, units), ("", 0.0))
    key = find(f"{architecture}_{units}") if model else None
    bandwidth, cache = (0, 0) if key is None else (
        ACCELERATORS[key].bandwidth_gbs, max(ACCELERATORS[key].l2_bytes, ACCELERATORS[key].l3_bytes))
    device = Device(f"{BACKEND}:{name}", BACKEND, architecture, architecture, model, threads=0, compute_units=units,
                    vector_bits=int(extra["wave_size"]) * 32, vector_registers=256, l1_bytes=16 << 10, l3_bytes=cache,
                    local_memory=64 << 10, max_work_group=1024, peak_gflops=float(peak), bandwidth_gbs=float(bandwidth),
                    extra=tuple(sorted(extra.items())))
    try:
        return Device.from_json({**device.to_json(), **stated})
    except FormatError as error:
        raise DeviceError(str(error)) from None


def is_known(device: Device) -> bool:
    """Whether the tables have facts of the device's architecture; other facts are guessed from its name."""
    return device.architecture in _ARCHITECTURES or any(device.architecture == name for name, _ in CARDS)


def device_of(path: Path, stated: Sequence[Device]) -> Device:
    """The device whose data a file holds, by the file's name; `stated` are the user's devices. Raises DeviceError."""
    match = _NAME.match(path.name)
    for device_stated in stated:
        if match is not None and device_stated.name == f"{BACKEND}:{match[0]}":
            return device_stated
    if match is not None:
        return device(match[0])
    if len(stated) == 1:
        return stated[0]
    raise DeviceError(f"the name of {path} contains no GPU (gfx906_60.db would); add --device gfx906_60")


def _units(match: re.Match[str], architecture: str) -> int:
    if match[2]:
        count = int(match[2])
        return 2 * count if architecture.startswith("gfx1") else count  # MIOpen counts pairs of units on these GPUs
    return int(match[3], 16) if match[3] else 0


def _stated_facts(words: Iterable[str]) -> dict[str, Fact]:
    values: dict[str, Fact] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not text:
            raise DeviceError(f"{word!r:.60} is not a fact of a device; write compute_units=60, for example")
        if re.fullmatch(r"[0-9]{1,15}", text):
            values[name] = int(text)
        elif re.fullmatch(r"[0-9]{1,15}\.[0-9]{1,15}", text):
            values[name] = float(text)
        else:
            values[name] = text
    return values
