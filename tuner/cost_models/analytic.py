"""The analytic model: terms of a GPU kernel's time that follow from tiles and data sheets, and the time they add up to.

No measurement is needed. A block repeats *steps*: it loads `block_k` of both operands and multiplies them. The model
counts what a step asks of each part of a unit (arithmetic, instruction issue, shared memory), how much of the latencies
the resident blocks and the stages of the pipeline hide, how many blocks each unit runs one after another, and the bytes
that pass the second-level cache and memory. Sources:
- occupancy and its limits: the CUDA occupancy calculator (`kernels/devices/occupancy.py`);
- latency hiding by concurrency, within and between warps: Volkov, "Better Performance at Lower Occupancy" (GTC 2010)
  and "Understanding Latency Hiding on GPUs" (2016);
- tiles, waves and their tail, arithmetic intensity: NVIDIA, "Matrix Multiplication Background User's Guide";
- choosing a GEMM tile by such a model alone: Origami and tritonBLAS (arXiv 2512.04226), which does it for AMD's GPUs;
- roofline: Williams, Waterman, Patterson (2009); the 3-norm replaces its maximum, since parts overlap imperfectly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.occupancy import MOST_REGISTERS, PARTS, REGISTER_PIECE, blocks_per_unit
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Floats, Task

from .gpu_rates import GpuRates, missing_fact
from .product_tiles import TRANSACTION, WORD, ProductTiles, declared, describes_tiles, tiles_of

Columns = Mapping[str, NDArray[Any]]  # by name of a parameter or derived quantity, (row,) each

LONGEST = 1e6  # the feature for an infinite time, because trees take no infinite numbers
# Numbers of the model that are estimates, and neither a rate of the GPU nor a definition.
TAIL = 0.5  # share of the blocks' granularity that counts: units do not run their blocks in lock step
DIRECT = 1.5  # a fragment's load from the first-level cache in loads from shared memory (tags, sectors)
LOAD_ISSUE = 1.5  # instructions of a fragment's load: itself and half an address or loop instruction
COPY_ISSUE = 3.0  # of a copy into shared memory: load, store and address; cp.async needs one less
PORT = 64.0  # bytes a clock that a unit takes from the second-level cache, on all of these GPUs
CACHE_SHARE = 0.7  # of the second-level cache that holds operands; the rest is output and early evictions
SPILL = 0.03  # lengthening for each spilled register: a store and a load among some 64 multiply-adds


@dataclass(frozen=True, eq=False)
class Terms:
    """The terms of each configuration's time; every array is (configuration,). Seconds are of the whole launch."""

    seconds: Floats  # the estimate that the others add up to
    arithmetic: Floats  # seconds of multiply-adds at the rate of the warps that are resident, padding included
    issue: Floats  # seconds of issuing all warp instructions
    shared: Floats  # seconds of shared-memory transactions
    cache: Floats  # seconds of the second-level cache
    memory: Floats  # seconds of memory
    latency: Floats  # seconds of latencies that neither stages nor other blocks hide
    fixed: Floats  # seconds of launches and of adding the slices of split k
    blocks_per_unit: Floats  # resident; 0: a block does not fit
    occupancy: Floats  # share of a unit's threads that are resident
    waves: Floats  # blocks / blocks that run at a time
    balance: Floats  # mean number of blocks of a unit divided by the largest: the efficiency of the tail
    waste: Floats  # multiply-adds with padding divided by those without
    hit_share: Floats  # of the operands' bytes that the second-level cache delivers


TIMES = ("seconds", "arithmetic", "issue", "shared", "cache", "memory", "latency", "fixed")  # the terms in seconds


def terms_of(space: SearchSpace, tiles: ProductTiles | None = None) -> Terms:
    """The terms of all rows of a space; `tiles` are those of its rows, where the caller has them.

    Raises KernelError if the kernel does not describe its tiles, DeviceError if a fact of the device is not known.
    """
    tiles, rates = tiles or tiles_of(space), GpuRates.of(space.device)
    registers = np.minimum(tiles.thread_registers_estimate, most_registers(tiles, rates))  # the others spill
    resident = blocks_per_unit(space.device, tiles.block_threads, registers, tiles.shared_bytes).astype(float)
    return terms(tiles, resident, rates)


def estimates(task: Task) -> Floats:
    """The estimated seconds of every configuration of a task (number,); nan where there is no estimate.

    There is none for kernels that do not describe their tiles, and on devices that are no GPU with known limits.
    Configurations that differ only in parameters that no tile depends on are estimated once.
    """
    seconds = np.full(len(task), np.nan)
    if has_facts(task.device):
        for space, part in task.parts():
            if describes_tiles(space.kernel):
                rows, alike = space.distinct(declared(space.kernel))
                chosen = space if len(rows) == len(space) else space.at(rows)
                seconds[part] = terms_of(chosen).seconds[alike]
    return seconds


def term_columns(space: SearchSpace, known: Columns | None = None) -> list[Floats]:
    """The terms of all rows of a space as features, in the order of Terms; none if tiles are not described.

    Seconds are divided by those of the problem's multiply-adds at the GPU's peak, so that they compare between GPUs
    and problems. All are nan on devices without the facts of a GPU. Columns (row,) that are `known` are not computed.
    """
    if not describes_tiles(space.kernel):
        return []
    if not has_facts(space.device):
        return [np.full(len(space), np.nan)] * len(fields(Terms))
    tiles, rates = tiles_of(space, known), GpuRates.of(space.device)
    by_name = terms_of(space, tiles)
    work = 2 * tiles.products * tiles.gemm_m * tiles.gemm_n * tiles.gemm_k
    peak = np.where(tiles.tensor > 0, rates.tensor_flop, 2 * rates.lanes) * rates.units * rates.hertz
    return [np.minimum(getattr(by_name, field.name) / (work / peak if field.name in TIMES else 1.0), LONGEST)
            for field in fields(Terms)]


def has_facts(device: Device) -> bool:
    """Whether the device is a GPU whose limits are known (`accelerators.limit_facts`)."""
    return missing_fact(device) is None


def terms(tiles: ProductTiles, resident: Floats, rates: GpuRates) -> Terms:
    """The terms of tiles, of which a unit holds `resident` blocks (configuration,); 0 gives an infinite time."""
    with np.errstate(divide="ignore", invalid="ignore"):
        launch = _Launch(tiles, np.maximum(resident, 1.0), rates).terms(resident)
    # what depends on no parameter has one value for all configurations
    return Terms(*np.broadcast_arrays(*(getattr(launch, field.name) for field in fields(Terms))))


def most_registers(tiles: ProductTiles, rates: GpuRates) -> Floats:
    """The registers that a thread can have (configuration,): a unit's, shared by the threads of one block.

    One register less than `occupancy.MOST_REGISTERS` has a name in instructions. The accumulation registers of AMD's
    CDNA, which only matrix instructions reach, are not counted.
    """
    whole = PARTS * rates.warp  # threads: as many warps in each part of the unit
    threads = np.maximum(1.0, np.ceil(tiles.block_threads / whole) * whole)
    shared = np.floor(rates.unit_registers / threads / REGISTER_PIECE) * REGISTER_PIECE
    return np.asarray(np.minimum(MOST_REGISTERS - 1, shared))


def overlapped(*parts: Floats) -> Floats:
    """The time of parts that work at the same time, at least that of the longest: the 3-norm of their times.

    A larger exponent would mean a better overlap; with an infinite one only the longest part would count.
    """
    return np.cbrt(sum(part * part * part for part in parts))


class _Launch:
    """The work of a launch. Clocks are those of one unit for one step of one block unless something else is said."""

    def __init__(self, tiles: ProductTiles, resident: Floats, rates: GpuRates) -> None:
        self.tiles, self.rates = tiles, rates
        self.warps = np.ceil(tiles.block_threads / rates.warp)
        tiles_m, tiles_n = np.ceil(tiles.gemm_m / tiles.block_m), np.ceil(tiles.gemm_n / tiles.block_n)
        self.rows_of_blocks, self.columns_of_blocks = tiles_m, tiles_n
        self.blocks = np.maximum(1, tiles.blocks)
        depth = np.ceil(np.ceil(tiles.gemm_k / tiles.block_k) / np.maximum(1, tiles.split_k))
        whole = np.where(tiles.partial_tiles > 0, tiles.block_tiles, np.ceil(tiles.block_tiles))
        self.steps = depth * (tiles.block_tiles + TAIL * (whole - tiles.block_tiles))  # of a block
        self.all_steps = depth * tiles.block_tiles * self.blocks
        self.per_unit = self.blocks / rates.units
        most = np.ceil(self.per_unit)
        self.most = self.per_unit + np.where(self.per_unit < 1, 1.0, TAIL) * (most - self.per_unit)
        self.resident = np.minimum(resident, most)

    def terms(self, resident: Floats) -> Terms:
        """All terms; where `resident` is 0 the estimate is infinite."""
        tiles, rates = self.tiles, self.rates
        arithmetic, issue, shared = self._arithmetic(), self._issue(), self._shared()
        step_bytes = (tiles.block_m + tiles.block_n) * tiles.block_k * tiles.element_bytes
        busy = overlapped(arithmetic, issue, shared, step_bytes / PORT)
        alone = self._alone(busy)
        step = overlapped(self.resident * busy, alone) / self.resident  # of one block among the resident ones
        unit_clocks = self.most * (self.steps * step + self._ends() / self.resident)
        cache_bytes, memory_bytes, hit_share = self._traffic(step_bytes)
        cache = cache_bytes / (rates.l2_bytes * rates.units * rates.hertz)
        memory = memory_bytes / rates.memory_bytes
        launches = np.where((tiles.split_k > 1) | (tiles.partial_tiles > 0), 2.0, 1.0)
        fixed = rates.launch_seconds * launches + self._reduction()
        running = unit_clocks / rates.hertz
        seconds = overlapped(running, cache, memory) * (1 + SPILL * self._spilled()) + fixed
        whole = self.most * self.steps / rates.hertz
        useful = tiles.products * tiles.gemm_m * tiles.gemm_n * tiles.gemm_k
        padded = self.all_steps * tiles.block_m * tiles.block_n * tiles.block_k
        return Terms(
            seconds=np.where(resident > 0, seconds, np.inf), arithmetic=arithmetic * whole, issue=issue * whole,
            shared=shared * whole, cache=cache, memory=memory, latency=np.maximum(0.0, running - busy * whole),
            fixed=fixed, blocks_per_unit=resident,
            occupancy=resident * self.warps / rates.unit_warps,
            waves=self.per_unit / np.maximum(resident, 1.0), balance=self.per_unit / np.ceil(self.per_unit),
            waste=padded / useful, hit_share=hit_share)

    def _arithmetic(self) -> Floats:
        """Clocks of the multiply-adds; parts of a unit without a warp are idle."""
        tiles, rates = self.tiles, self.rates
        products = tiles.block_m * tiles.block_n * tiles.block_k
        peak = np.where(tiles.tensor == 2, rates.tensor_flop, rates.mma_flop) * 2 / np.maximum(2, tiles.element_bytes)
        clocks = np.where(tiles.tensor > 0, 2 * products / np.maximum(peak, 1e-9), products / rates.lanes)
        served = np.minimum(1.0, self.warps * self.resident / PARTS)
        return np.asarray(clocks / served)

    def _issue(self) -> Floats:
        """Clocks in which the schedulers issue arithmetic, loads of fragments and copies."""
        tiles = self.tiles
        # a warp's mma.sync is m16n8 and 32 bytes deep; wgmma is one instruction for four warps
        mma = tiles.fragment_m * tiles.fragment_n * tiles.block_k * tiles.element_bytes / (16 * 8 * 32)
        arithmetic = np.select([tiles.tensor == 0, tiles.tensor == 1],
                               [tiles.fragment_m * tiles.fragment_n * tiles.block_k, mma], mma / 16)
        loads = np.where(tiles.tensor == 2, 0.0, tiles.fragment_loads * tiles.block_k * LOAD_ISSUE)
        copied = (tiles.block_m + tiles.block_n) * tiles.block_k * tiles.element_bytes * tiles.staged_share
        copies = np.where(tiles.tensor == 2, 0.0, copied / (self.rates.warp * np.maximum(1, tiles.load_bytes)))
        copies = copies * (COPY_ISSUE - np.where(tiles.stages > 2, 1.0, 0.0))
        return np.asarray((self.warps * (arithmetic + loads) + copies) / PARTS)

    def _shared(self) -> Floats:
        """Clocks in which shared memory (and the first-level cache) delivers fragments and takes copies."""
        tiles = self.tiles
        direct = (1 - tiles.staged_share) * DIRECT
        fragments = self.warps * tiles.fragment_transactions * (tiles.staged_share + direct)
        # wgmma reads both operands itself: 64 rows and all columns of the tile for each 64 rows of it
        reads = np.ceil(tiles.block_m / 64) * (64 + tiles.block_n) * tiles.element_bytes / TRANSACTION
        fragments = np.where(tiles.tensor == 2, reads, fragments)
        loaded = np.where(tiles.stages > 2, 0.0, tiles.copy_transactions)  # through registers: also a load
        return np.asarray((fragments + tiles.copy_transactions + loaded) * tiles.block_k * TRANSACTION
                          / self.rates.shared_bytes)

    def _alone(self, busy: Floats) -> Floats:
        """Clocks of a step of a block that has the unit to itself: its latencies, as far as the stages expose them."""
        tiles, rates = self.tiles, self.rates
        # k that one fragment covers: an fp32 thread takes one value at a time, mma.sync 32 bytes
        chain = np.where(tiles.tensor > 0, 32 / np.maximum(1, tiles.element_bytes), 1.0)
        fragments = tiles.block_k / chain * rates.fragment_latency * np.where(tiles.tensor == 2, 0.25, 1.0)
        # an operand that bypasses shared memory waits for the second-level cache once in a line of 32 numbers
        direct = np.where(tiles.staged_share < 1, rates.global_latency * tiles.block_k / 32, 0.0)
        turn = np.where(tiles.staged_share > 0, rates.stage_latency, 0.0) + direct + fragments + busy
        ahead = np.maximum(1.0, tiles.stages - 1)
        return np.asarray(np.where(tiles.stages > 1, np.maximum(turn, rates.global_latency / ahead),
                                   turn + (tiles.staged_share > 0) * rates.global_latency))

    def _ends(self) -> Floats:
        """Clocks of a block before its first step and after its last: filling the pipeline and storing the tile."""
        tiles, rates = self.tiles, self.rates
        stored = tiles.block_m * tiles.block_n * np.where(tiles.split_k > 1, WORD, tiles.element_bytes)
        return np.asarray(2 * rates.global_latency + stored / rates.l2_bytes * self.resident)

    def _traffic(self, step_bytes: Floats) -> tuple[Floats, Floats, Floats]:
        """The bytes of the second-level cache, the bytes of memory, and the cache's hit share of operands."""
        tiles, rates = self.tiles, self.rates
        cache = self.all_steps * step_bytes * tiles.multicast_share
        once = tiles.products * (tiles.gemm_m + tiles.gemm_n) * tiles.gemm_k * tiles.element_bytes
        # a wave is a rectangle of blocks, `group_m` rows high: what its rows and columns read is read from memory once
        wave = np.maximum(1.0, np.minimum(self.blocks, rates.units * self.resident))
        high = np.minimum(np.maximum(1.0, tiles.group_m), self.rows_of_blocks)
        wide = np.minimum(np.maximum(1.0, wave / high), self.columns_of_blocks)
        high = np.minimum(np.maximum(high, wave / wide), self.rows_of_blocks)
        reuse = np.maximum(1.0, high * wide * (tiles.block_m + tiles.block_n)
                           / (high * tiles.block_m + wide * tiles.block_n))
        capacity = CACHE_SHARE * rates.l2_capacity
        kept = np.minimum(1.0, capacity / np.maximum(1.0, once))  # from wave to wave
        missed = kept * np.minimum(once, cache) + (1 - kept) * np.maximum(np.minimum(once, cache), cache / reuse)
        output = tiles.products * tiles.gemm_m * tiles.gemm_n * tiles.element_bytes
        return (np.asarray(cache + output), np.asarray(missed + output),
                np.asarray(1 - missed / np.maximum(1.0, cache)))

    def _reduction(self) -> Floats:
        """Seconds of writing partial sums of tiles as fp32 and adding them (split k, stream-k)."""
        tiles, rates = self.tiles, self.rates
        slices = np.where(tiles.split_k > 1, tiles.products * tiles.gemm_m * tiles.gemm_n * tiles.split_k, 0.0)
        moved = 2 * WORD * (slices + tiles.partial_tiles * self.blocks * tiles.block_m * tiles.block_n)
        kept = moved / 2 <= CACHE_SHARE * rates.l2_capacity
        return np.asarray(moved / np.where(kept, rates.l2_bytes * rates.units * rates.hertz, rates.memory_bytes))

    def _spilled(self) -> Floats:
        """Registers of a thread beyond those that it can have."""
        return np.maximum(0.0, self.tiles.thread_registers_estimate - most_registers(self.tiles, self.rates))
