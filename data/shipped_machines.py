"""Machines of the shipped data, read from the files' metadata alone; tells whether a CPU is new to the data."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq

from seqtune.kernels.devices.device import Device

SHIPPED = Path(__file__).resolve().parent / "shipped"
GPUS = SHIPPED / "gpus"  # measurements of GPUs, which are no part of the shipped data set
Cpu = tuple[str, int, int, int]  # architecture, bytes of the L1, L2 and L3 caches


def shipped_devices() -> list[Device]:
    """The devices that the shipped data sets were measured on."""
    devices = []
    for path in sorted(SHIPPED.glob("*.parquet")):
        facts = json.loads((pq.read_schema(path).metadata or {})[b"seqtune"])
        devices += [Device.from_json(device) for device in facts["devices"].values()]
    return devices


def is_new_cpu(devices: Iterable[Device]) -> bool:
    """Whether the llvm devices belong to a CPU, by architecture and caches, that is in no shipped data set."""
    here = _cpus(devices)
    return bool(here) and not here & _cpus(shipped_devices())


def _cpus(devices: Iterable[Device]) -> set[Cpu]:
    return {(device.architecture, device.l1_bytes, device.l2_bytes, device.l3_bytes)
            for device in devices if device.backend == "llvm"}
