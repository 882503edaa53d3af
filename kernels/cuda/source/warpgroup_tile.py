"""WarpgroupTile: the numbers that determine the text of a matrix product on Hopper.

A stage of the ring holds each matrix as bulk tensor copies write it and products of a warpgroup read it. Source: PTX
ISA 8.x, "Asynchronous Warpgroup Level Matrix Shared Memory Layout", "Matrix Descriptor Format" and "Tensors: Swizzling
Modes".
"""

from __future__ import annotations

from dataclasses import dataclass

from .instructions import WarpgroupProduct

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


ATOM = 8  # rows after which a swizzle repeats
SWIZZLES = {128: 1, 64: 2, 32: 3}  # bytes of a row -> the descriptor's layout type
ELEMENT = 2  # bytes


@dataclass(frozen=True, slots=True)
class StagedOperand:
    """One matrix in a stage: `width` rows (of A) or columns (of B) by `depth`, in parts whose rows are swizzled."""

    width: int
    depth: int
    across: bool  # neighbours along the width lie side by side ("MN-major"), not neighbours along the depth
    share: int  # the part of the width that one block of a cluster fetches

    @property
    def span(self) -> int:
        """Elements of a swizzled row: the most of 64, 32 or 16 that divides the axis whose neighbours are adjacent."""
        axis = self.share if self.across else self.depth
        return next(span for span in (64, 32, 16) if axis % span == 0)

    @property
    def row(self) -> int:
        """Bytes of a swizzled row."""
        return self.span * ELEMENT

    @property
    def bytes(self) -> int:
        """Bytes of a stage's tile."""
        return self.width * self.depth * ELEMENT

    @property
    def box(self) -> tuple[int, int]:
        """The elements that one copy moves: along the contiguous axis, and along the other."""
        return (self.span, self.depth if self.across else self.share)

    @property
    def copies(self) -> int:
        """The number of copies of a stage that one block makes."""
        return (self.share if self.across else self.depth) // self.span

    @property
    def part(self) -> int:
        """Bytes between one copy's rows and the next one's."""
        return self.row * (self.depth if self.across else self.width)

    @property
    def descriptor(self) -> int:
        """The descriptor but for its address: the layout type, and in units of 16 bytes the offsets between atoms."""
        leading = self.part if self.across else 16  # ignored where the depth is adjacent
        return SWIZZLES[self.row] << 62 | (ATOM * self.row // 16) << 32 | (leading // 16) << 16

    def offset(self, width: int, depth: int) -> int:
        """The offset in bytes of a part that begins at an element; both are multiples of the instruction's shape."""
        if self.across:
            return width // self.span * self.part + depth * self.row
        return depth // self.span * self.part + width * self.row + depth % self.span * ELEMENT
