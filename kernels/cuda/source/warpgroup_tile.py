"""WarpgroupTile: the numbers that determine the text of a matrix product on Hopper."""

from __future__ import annotations

from dataclasses import dataclass

from .hopper import WarpgroupProduct
from .staged_operand import StagedOperand

WARPGROUP = 128  # threads
BARRIER = 8  # bytes
UNIT_REGISTERS = 65536  # registers of a multiprocessor of sm_90
FETCHER_REGISTERS = {1: 40, 2: 40, 3: 32}  # by the number of consumers; a multiple of 8


@dataclass(frozen=True, slots=True)
class WarpgroupTile:
    """The numbers that determine the source text."""

    dtype: str
    block_m: int
    block_n: int
    block_k: int
    consumers: int  # warpgroups that multiply
    stages: int
    resident: int  # blocks that share a multiprocessor
    cluster: int  # blocks, neighbours along m, that fetch B together
    trans_a: bool  # A is stored as (k, m)
    trans_b: bool  # B is stored as (n, k)
    split: bool  # sums go to the workspace
    paired: bool  # n is even: two columns are stored at once
    bias: bool
    relu: bool

    @property
    def a(self) -> StagedOperand:
        """A in a stage."""
        return StagedOperand(self.block_m, self.block_k, self.trans_a, self.block_m)

    @property
    def b(self) -> StagedOperand:
        """B in a stage."""
        return StagedOperand(self.block_n, self.block_k, not self.trans_b, self.block_n // self.cluster)

    @property
    def rows(self) -> int:
        """Instructions along m of one consumer, 64 rows each."""
        return self.block_m // self.consumers // 64

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return WARPGROUP * (self.consumers + 1)

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory, which begins at a multiple of 1024 as the widest swizzle needs."""
        return self.stages * (self.a.bytes + self.b.bytes + 2 * BARRIER)

    @property
    def registers(self) -> tuple[int, int] | None:
        """Registers of a thread that fetches and of one that multiplies; None where all have the most there can be."""
        entry = UNIT_REGISTERS // (self.threads * self.resident) // 8 * 8
        if entry > 255:
            return None
        fetcher = FETCHER_REGISTERS[self.consumers]
        return fetcher, (entry * (self.consumers + 1) - fetcher) // self.consumers // 8 * 8

    @property
    def product(self) -> WarpgroupProduct:
        """The instruction."""
        return WarpgroupProduct(self.dtype, self.block_n, self.a.across, self.b.across)
