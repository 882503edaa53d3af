"""Grouped convolution of channels-last images as LLVM IR text: a vector holds output channels.

Where a vector holds the channels of several groups, an input is a vector, too: for each of a group's input channels, a
shuffle gives every lane the channel of its own group. Where a group holds whole vectors, an input is one float for
all lanes. Either is read once for all filter columns and pixels that multiply it.

Filter rows outside the image are skipped at run time. Columns outside it are left out of the text where a tile is as
wide as the output, and read zeros from a constant where tiles of several positions share the text.
The last tile of a row, of a column and of the channels overlaps its predecessor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...launches.implementation import KernelSource
from ..text.formula import Formula
from ..text.writer import Writer, declarations
from .epilogue import OTHER, Store, declare_epilogue
from .grouped_loops import FUSED_FIELDS, GroupedLoops

Sums = dict[tuple[int, int, int], str]  # (row, column, vector) of a tile -> value

# Filter rows on input rows from %low before %high, the tile's first one being 0; %left is its first input column.
TILE = "ptr %x, ptr %w, ptr %bias, ptr %y, i64 %low, i64 %high, i64 %left, ptr %a"


@dataclass(frozen=True, slots=True)
class GroupedTile:
    """The numbers that determine the source text."""

    vector: int
    vectors: int
    tile_w: int
    tile_h: int
    held: int  # input channels whose weights are in registers at the same time
    group: int  # channels of a group
    r: int
    s: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    x_pixel: int  # floats from one pixel of x to the next
    left: int  # columns of tiles before this one may lie left of the image
    right: int  # columns of tiles from this one on may lie right of the image
    whole: bool  # a tile is as wide as the output
    bias: bool
    formula: Formula  # epilogue of the sum with the bias, and of a second operand in the output's layout
    fused: bool  # the launch has arguments of a fusion

    @property
    def shuffled(self) -> bool:
        """Whether a vector holds the channels of several groups."""
        return self.vector > self.group

    @property
    def wide(self) -> int:
        """The number of input columns that a tile reads."""
        return (self.tile_w - 1) * self.stride[1] + (self.s - 1) * self.dilation[1] + 1

    def readers(self) -> dict[int, list[tuple[int, int]]]:
        """Input row that a tile reads -> the pairs of an output row and the filter row that it is read with."""
        reading: dict[int, list[tuple[int, int]]] = {}
        for t in range(self.tile_h):
            for r in range(self.r):
                reading.setdefault(t * self.stride[0] + r * self.dilation[0], []).append((t, r))
        return dict(sorted(reading.items()))

    def columns(self) -> list[tuple[int, list[tuple[int, int]]]]:
        """Input columns that are read, with the pairs of an output and the filter column that they are read with."""
        first, last = (self.left, self.right) if self.whole else (0, self.wide)
        pairs = ((column, [(j, s) for s in range(self.s) for j in range(self.tile_w)
                           if j * self.stride[1] + s * self.dilation[1] == column]) for column in range(first, last))
        return [pair for pair in pairs if pair[1]]

    def source(self) -> KernelSource:
        """The text with the entry `grouped`."""
        return _source(self)


@lru_cache(maxsize=512)
def _source(tile: GroupedTile) -> KernelSource:
    with_other = tile.formula.operands == 2
    loops = GroupedLoops(tile.shuffled, tile.tile_w, tile.tile_h, tile.stride, with_other, tile.fused)
    return KernelSource("\n".join([
        declarations(tile.vector), declare_epilogue(tile.formula, tile.vector),
        f"@zeros = private constant [{max(tile.group, tile.vector)} x float] zeroinitializer, align 64",
        _tile(tile), loops.text()]))


def _tile(tile: GroupedTile) -> str:
    """Compute one block of channels of one tile."""
    write, with_other = Writer(FUSED_FIELDS), tile.formula.operands == 2
    store = Store(tile.vector, tile.vectors, tile.tile_h, tile.tile_w, True, tile.bias, tile.formula)
    grid = store.grid(write)
    names = ("x_row", "width", "y_row", "y_pixel", *(("other_row", "other_pixel") if with_other else ()))
    step = {name: write.argument(name) for name in names}
    reading = tile.readers()
    inside = {i: write.let(f"and i1 {write.let(f'icmp sle i64 %low, {i}')}, {write.let(f'icmp sgt i64 %high, {i}')}")
              for i in reading}
    sums: Sums = {(t, j, v): "zeroinitializer" for t in range(tile.tile_h) for j in range(tile.tile_w)
                  for v in range(tile.vectors)}
    for i, pairs in reading.items():
        before, old, name = write.block, dict(sums), write.fresh()[1:]
        write.do(f"br i1 {inside[i]}, label %row{name}, label %next{name}")
        write.label(f"row{name}")
        sums = _Row(write, tile, pairs, write.at("%x", write.mul(step["x_row"], i)), step["width"]).add(sums)
        end = write.block
        write.do(f"br label %next{name}")
        write.label(f"next{name}")
        for position, value in sums.items():
            if value != old[position]:
                sums[position] = write.let(
                    f"phi {store.kind} [ {old[position]}, %{before} ], [ {value}, %{end} ]")
    store.write(write, list(sums.values()), step, grid)
    return write.function(f"internal void @tile({TILE}{OTHER if with_other else ''}) noinline")


@dataclass(frozen=True, slots=True)
class _Row:
    """The multiply-adds with one input row."""

    write: Writer
    tile: GroupedTile
    pairs: Sequence[tuple[int, int]]  # an output row of the tile and the filter row that it reads with
    line: str
    width: str

    def add(self, sums: Sums) -> Sums:
        """The sums with this row's products added."""
        tile, write, changed = self.tile, self.write, [key for key in sums if key[0] in {t for t, _ in self.pairs}]
        pixels = {column: self._pixel(column) for column, _ in tile.columns()}
        passes = range(0, tile.group, tile.held)
        if tile.shuffled or len(passes) == 1:
            for first in passes:
                sums = self._channels(pixels, str(first), "%w", sums)
            return sums
        kind = f"<{tile.vector} x float>"

        def body(carried: list[str]) -> list[str]:
            channel, w, *values = carried
            after = self._channels(pixels, channel, w, {**sums, **dict(zip(changed, values, strict=True))})
            return [write.add(channel, tile.held), write.at(w, tile.held * tile.s * tile.vector * tile.vectors),
                    *(after[key] for key in changed)]

        _, _, *values = write.repeat(str(len(passes)), [("i64", "0"), ("ptr", "%w"), *(
            (kind, sums[key]) for key in changed)], body)
        return {**sums, **dict(zip(changed, values, strict=True))}

    def _pixel(self, column: int) -> str:
        """The pointer to the pixel of an input column; to zeros where that lies outside the image."""
        tile, write = self.tile, self.write
        pixel = write.at(self.line, column * tile.x_pixel)
        if tile.whole or tile.left <= column < tile.right:
            return pixel
        inside = write.let(f"icmp ult i64 {write.add('%left', column)}, {self.width}")
        return write.let(f"select i1 {inside}, ptr {pixel}, ptr @zeros")

    def _channels(self, pixels: dict[int, str], first: str, w: str, sums: Sums) -> Sums:
        """Add the products of `held` channels from `first` on; it is a number or, in a loop, the name of one."""
        tile, write, sums = self.tile, self.write, dict(sums)
        kind, lanes = f"<{tile.vector} x float>", tile.vector * tile.vectors
        start = int(first) * tile.s if first.isdigit() else 0
        weights = {
            (r, channel, s, v): write.load(kind, write.at(
                w, ((r * tile.group + channel) * tile.s + start + s) * lanes + v * tile.vector))
            for _, r in self.pairs for channel in range(tile.held) for s in range(tile.s) for v in range(tile.vectors)}
        for column, readers in tile.columns():
            for channel, value in enumerate(self._inputs(pixels[column], first)):
                for t, r in self.pairs:
                    for j, s in readers:
                        for v in range(tile.vectors):
                            sums[t, j, v] = write.fma(
                                tile.vector, value, weights[r, channel, s, v], sums[t, j, v])
        return sums

    def _inputs(self, pixel: str, first: str) -> Iterator[str]:
        """Vectors of the `held` input channels of a pixel from `first` on: each lane holds that of its group."""
        tile, write = self.tile, self.write
        if tile.shuffled:
            loaded = write.load(f"<{tile.vector} x float>", pixel)
            for channel in range(tile.held):
                lanes = [lane // tile.group * tile.group + int(first) + channel for lane in range(tile.vector)]
                yield write.shuffle(tile.vector, loaded, "poison", lanes)
            return
        base = write.at(pixel, first) if first != "0" else pixel
        for channel in range(tile.held):
            yield write.splat(tile.vector, write.load("float", write.at(base, channel)))
