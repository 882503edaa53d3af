"""Records of toy measurements, and journals of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace

DEVICE = Device("llvm:avx7:3", "llvm", "x86-64", "sse", model="a CPU", threads=3, toolchain="of old")  # no machine's
PROBLEM = Problem.make("gemm", m=3, n=4, k=5)


def record(tile: int, measurement: Measurement, kernel: str = "llvm.gemm") -> Record:
    """A record whose configuration is no longer one of the kernel's, as in an old journal."""
    return Record(PROBLEM, DEVICE.key, 1, Configuration(kernel, (("tile", tile), ("body", "row"))), DEVICE.toolchain,
                  measurement, when=1e9, run="random")


RECORDS = [record(1, Measurement(Status.CORRECT, (2e-3, 1e-3), 1e-7, 0.25)),
           record(2, Measurement(Status.COMPILE, message="no")), record(4, Measurement(Status.CRASH)),
           record(8, Measurement(Status.TIMEOUT))]


def space_records(space: SearchSpace, seconds: Iterable[float], rows: Iterable[int] | None = None) -> list[Record]:
    """Records of random trials with these times: of the first configurations of a space, or of these rows of it."""
    return [Record(space.problem, space.device.key, space.kernel.version, space[row], space.device.toolchain,
                   Measurement(Status.CORRECT, (time,), 1e-7), 1.0, "random")
            for row, time in zip(range(len(space)) if rows is None else rows, seconds, strict=False)]


def write_journal(path: Path, records: Iterable[Record], device: Device = DEVICE) -> Path:
    """Write a journal of these records, as those of the device."""
    with Journal(path) as journal:
        journal.add_device(device)
        journal.add_all([replace(each, device=device.key) for each in records])
    return path
