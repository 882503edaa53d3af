"""The tile of llvm.gemm_amx, as LLVM IR text: sums in the tile registers of AMX, of up to 16 rows of 64 bytes.

TDPBF16PS multiplies a register of A, up to 16 rows of 16 pairs along k, by a register of B, 16 pairs along k of 16
columns, and adds both products of each pair to sums in fp32. A is read as it lies, and B from panels of pairs
(`tiling.pack_pairs`). The first of the eight registers hold the sums, which begin with the bias; the next ones hold B;
the blocks of A take turns in the rest. A loop over the sums in memory finishes and stores them (`epilogue.Grid`).

The registers' shapes are set by each thread before its tasks, and the registers are free again after them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache

from ...launches.implementation import KernelSource
from ..text.elements import Element
from ..text.formula import Formula
from ..text.writer import Writer
from .epilogue import Grid, declare_epilogue
from .task_loops import ENTRIES, FUSED_FIELDS, TILES, loops, signature

REGISTERS, ROWS, ROW_BYTES = 8, 16, 64  # of AMX's palette 1
LANES = ROW_BYTES // 4  # sums of a row
PAIRS = ROW_BYTES // 4  # along k, of one instruction
_DECLARATIONS = "\n".join(f"declare void @llvm.x86.{name}" for name in (
    "ldtilecfg(ptr)", "tilerelease()", "tilezero(i8)", "tileloadd64(i8, ptr, i64)", "tilestored64(i8, ptr, i64)",
    "tdpbf16ps(i8, i8, i8)"))


@dataclass(frozen=True, slots=True)
class AmxTile:
    """The numbers that determine a tile's source text. Both operands are bf16."""

    vectors: int  # registers along the columns
    rows: int  # all of the tile; a multiple of `blocks`
    steps: int  # instructions along k in the innermost loop's body, for each register of sums
    pitch: int  # elements between rows of A
    bias: bool
    formula: Formula
    y: Element
    other: Element

    @property
    def blocks(self) -> int:
        """Registers along the rows."""
        return -(-self.rows // ROWS)

    @property
    def sums(self) -> int:
        """Registers that hold sums."""
        return self.blocks * self.vectors

    def source(self) -> KernelSource:
        """The entry `direct`."""
        return _source(self)

    def shapes(self) -> bytes:
        """The 64 bytes that `ldtilecfg` reads: palette 1, the bytes of a row of each register, and its rows."""
        own = self.rows // self.blocks
        b = range(self.sums, self.sums + self.vectors)
        rows = [ROWS if register in b else own for register in range(REGISTERS)]
        return struct.pack("<2B14x8H16x8B8x", 1, 0, *[ROW_BYTES] * REGISTERS, *rows)


@lru_cache(maxsize=512)  # configurations that differ in launch arguments alone are often consecutive
def _source(tile: AmxTile) -> KernelSource:
    shapes = ", ".join(f"i8 {byte}" for byte in tile.shapes())
    entries = ENTRIES.replace(TILES, f"call void @llvm.x86.ldtilecfg(ptr @shapes)\n  {TILES}\n"
                                     "  call void @llvm.x86.tilerelease()", 1)
    with_other = tile.formula.operands == 2
    return KernelSource("\n".join([
        f"@shapes = internal constant [{ROW_BYTES} x i8] [{shapes}], align 64", _DECLARATIONS, _tile(tile, with_other),
        entries]), (loops(with_other, False, False, "i16", tile.y.kind, tile.other.kind),))


def _tile(tile: AmxTile, with_other: bool) -> str:
    write, lanes, own = Writer(FUSED_FIELDS), LANES * tile.vectors, tile.rows // tile.blocks
    memory = write.let(f"alloca [{tile.rows * lanes} x float], align 64")
    step = {name: write.argument(name) for name in (
        "channels", "y_row", "y_pixel", *(("other_row", "other_pixel") if with_other else ()))}
    spare = REGISTERS - tile.sums - tile.vectors
    for register in range(tile.sums):
        bias = write.at("%bias", register % tile.vectors * LANES)  # in all rows: the step between them is 0
        write.do(f"call void @llvm.x86.tileloadd64(i8 {register}, ptr {bias}, i64 0)" if tile.bias else
                 f"call void @llvm.x86.tilezero(i8 {register})")

    def body(at: list[str]) -> list[str]:
        x, w = at
        for pairs in range(0, tile.steps * PAIRS, PAIRS):
            for vector in range(tile.vectors):
                columns = write.at(w, pairs * lanes + vector * LANES)
                write.do(f"call void @llvm.x86.tileloadd64(i8 {tile.sums + vector}, ptr {columns}, i64 {4 * lanes})")
            for block in range(tile.blocks):
                a = tile.sums + tile.vectors + block % spare
                rows = write.at(x, block * own * tile.pitch + 2 * pairs, "i16")
                write.do(f"call void @llvm.x86.tileloadd64(i8 {a}, ptr {rows}, i64 {2 * tile.pitch})")
                for vector in range(tile.vectors):
                    write.do(f"call void @llvm.x86.tdpbf16ps(i8 {block * tile.vectors + vector}, i8 {a}, "
                             f"i8 {tile.sums + vector})")
        return [write.at(x, 2 * tile.steps * PAIRS, "i16"), write.at(w, tile.steps * PAIRS * lanes)]

    passes = write.i64("udiv", step["channels"], tile.steps * PAIRS)  # channels are pairs
    write.repeat(passes, [("ptr", "%x"), ("ptr", "%w")], body)
    for register in range(tile.sums):
        block, vector = divmod(register, tile.vectors)
        to = write.at(memory, block * own * lanes + vector * LANES)
        write.do(f"call void @llvm.x86.tilestored64(i8 {register}, ptr {to}, i64 {4 * lanes})")
    Grid(write, tile.formula, 1, tile.rows, tile.vectors, LANES, memory, tile.y, tile.other).store(
        (), "%y", step, "%other", "%overlap")
    return "\n".join([declare_epilogue(tile.formula, LANES, y=tile.y),
                      write.function(f"internal void @tile({signature(with_other, False)}) noinline")])
