"""Occupancy: the number of thread blocks that one unit of a GPU holds at a time, and the limit that decides it.

The formulas are those of NVIDIA's occupancy calculator (`cuda_occupancy.h` of the CUDA toolkit, compute capability 7.5
and later): a warp's registers are allocated in pieces of 8 a thread, in one of four parts of the unit; a block's shared
memory, with the driver's reserve, in pieces of 128 bytes (256 before compute capability 8.0). AMD's CDNA units have
four parts as well and allocate a wave's registers in the same pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import DeviceError

from .device import Device

PARTS = 4  # parts of a unit; each has its own registers and a scheduler that issues one warp instruction a clock
REGISTER_PIECE = 8  # registers of a thread
MOST_REGISTERS = 256  # a thread's, by the calculator; on AMD's CDNA it has 512 (vector and accumulation)
LIMITS = ("blocks", "threads", "registers", "shared memory")  # in the order of `blocks_by_limit`


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The blocks of one kernel that a unit holds at a time."""

    blocks: int  # 0: a block does not fit at all
    warps: int
    share: float  # share of the unit's warps
    limit: str  # the first of LIMITS that decides the number of blocks

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        return {"blocks": self.blocks, "warps": self.warps, "share": round(self.share, 4), "limit": self.limit}


def occupancy(device: Device, threads: int, registers: int, shared: int) -> Occupancy:
    """The occupancy of a kernel with blocks of `threads`, `registers` a thread and `shared` bytes a block.

    `shared` is static and dynamic shared memory without the driver's reserve. The device is a GPU with the extra facts
    of `accelerators.limit_facts`. Raises DeviceError if it lacks one.
    """
    by_limit = blocks_by_limit(device, threads, registers, shared)
    blocks = min(int(count) for count in by_limit.values())
    warp_size, unit_threads = _facts(device, "warp_size", "unit_threads")
    warps = blocks * -(-threads // warp_size)
    return Occupancy(blocks, warps, warps * warp_size / unit_threads,
                     next(name for name, count in by_limit.items() if int(count) == blocks))


def blocks_by_limit(device: Device, threads: Any, registers: Any, shared: Any) -> dict[str, NDArray[np.int64]]:
    """The number of blocks that each limit alone allows: name of LIMITS -> numbers; 0 where a block exceeds it.

    `threads`, `registers` and `shared` are numbers or arrays that broadcast (a column holds a configuration each).
    """
    warp_size, unit_threads, unit_blocks, unit_registers, unit_shared, reserved = _facts(
        device, "warp_size", "unit_threads", "unit_blocks", "unit_registers", "unit_shared", "reserved_shared")
    threads, registers, shared = np.broadcast_arrays(*(np.asarray(value, np.int64) for value in
                                                       (threads, registers, shared)))
    warps = np.maximum(1, -(-threads // warp_size))
    a_warp = np.maximum(1, _rounded_up(registers, REGISTER_PIECE)) * warp_size
    parts_warps = unit_registers // PARTS // a_warp * PARTS
    fits = (a_warp * _rounded_up(warps, PARTS) <= unit_registers) & (registers <= MOST_REGISTERS * warp_size // 32)
    a_block = _rounded_up(shared + reserved, shared_piece(device))
    largest = device.local_memory + reserved
    limits = {
        "blocks": np.full(threads.shape, unit_blocks, np.int64),
        "threads": np.where(threads <= device.max_work_group, unit_threads // warp_size // warps, 0),
        "registers": np.where(fits, parts_warps // warps, 0),
        "shared memory": np.where(a_block <= largest, unit_shared // np.maximum(1, a_block), 0)}
    assert tuple(limits) == LIMITS
    return limits


def blocks_per_unit(device: Device, threads: Any, registers: Any, shared: Any) -> NDArray[np.int64]:
    """The number of blocks that a unit holds, over columns; the smallest of `blocks_by_limit`."""
    blocks: NDArray[np.int64] = np.minimum.reduce(list(blocks_by_limit(device, threads, registers, shared).values()))
    return blocks


def shared_piece(device: Device) -> int:
    """The bytes in whose multiples the device allocates shared memory."""
    capability = _facts(device, "compute_capability")[0]
    return 256 if 0 < capability < 80 else 128


def _rounded_up(values: Any, piece: int) -> Any:
    return -(-values // piece) * piece


def _facts(device: Device, *names: str) -> tuple[int, ...]:
    extra: Mapping[str, Any] = dict(device.extra)
    if (missing := next((name for name in names if name not in extra), None)) is not None:
        raise DeviceError(f"occupancy needs {missing} of {device.name}, which is not known")
    return tuple(int(extra[name]) for name in names)
