"""Depthwise convolution of channels-last images as LLVM IR text: a vector holds channels.

A task is (image, chunk of channels, row of tiles), the latter innermost. There is no padding copy. Rows outside the
image are skipped at run time; columns outside it are left out of the text, which has one tile for every kind of border
that the problem has.
The last tile of a row and of a column overlaps its predecessor, as does the last vector of channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ...launches.implementation import KernelSource
from ...problem import Problem
from ..fusion import Elements, Fusion
from ..launch import Launch, Phase
from ..text.formula import Formula
from ..text.writer import ENTRY, Writer, declarations, in_order
from .epilogue import OTHER_FIELDS, Grid, declare_epilogue, finished
from .tiling import row_runs

# Launch arguments in order, each an i64, followed by the border of every column of tiles; steps are in elements.
FIELDS = (
    "chunks", "chunk", "vectors", "tile_rows", "tile_columns", "last_row", "last_column", "last_channel", "channels",
    "height", "pad_h", "pad_w", "x_image", "x_row", "y_image", "y_row")
# Those of a fusion; the address of the second operand comes behind the borders.
FUSED_FIELDS = (*FIELDS, "x_pixel", "y_pixel", *OTHER_FIELDS[:-1])
SKIPS = ", ptr %other, i64 %skip_rows, i64 %skip_columns"


@dataclass(frozen=True, slots=True)
class ChannelTile:
    """The numbers that determine the source text."""

    vector: int
    tile_w: int
    tile_h: int
    r: int
    s: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    bias: bool
    formula: Formula  # epilogue of the sum with the bias, and of a second operand in the output's layout
    fused: bool  # the launch has arguments of a fusion
    elements: Elements  # the filter is in fp32

    @property
    def wide(self) -> int:
        """The number of input columns that a tile reads."""
        return (self.tile_w - 1) * self.stride[1] + (self.s - 1) * self.dilation[1] + 1

    def borders(self, problem: Problem) -> list[tuple[int, int]]:
        """The numbers of input columns left and right of the image, for every column of tiles."""
        width, pad, out_w = problem.size("w"), problem.size("pad_w"), problem.size("out_w")
        lefts = [min(first, out_w - self.tile_w) * self.stride[1] - pad for first in range(0, out_w, self.tile_w)]
        return [(max(0, -left), max(0, left + self.wide - width)) for left in lefts]

    def source(self, problem: Problem) -> KernelSource:
        """The source text; it depends on tile, filter, strides, dilation, epilogue and kinds of borders alone."""
        return _source(self, tuple(sorted(set(self.borders(problem)))))

    def launch(self, problem: Problem, chunk: int, threads: int, fusion: Fusion) -> Launch:
        """The launch for a problem on a number of threads."""
        names = ("n", "c", "h", "w", "pad_h", "pad_w", "out_h", "out_w")
        n, c, h, w, pad_h, pad_w, out_h, out_w = (problem.size(name) for name in names)
        vectors, tile_rows = -(-c // self.vector), -(-out_h // self.tile_h)
        chunk = min(chunk or vectors, vectors)
        chunks = -(-vectors // chunk)
        borders = self.borders(problem)
        kinds = sorted(set(borders))
        pitches = fusion.pitches(c, c)
        further = {"x_pixel": pitches.x, "y_pixel": pitches.y, "other_image": out_h * out_w * pitches.other,
                   "other_row": out_w * pitches.other, "other_pixel": pitches.other} if self.fused else {}
        arguments = in_order(
            FUSED_FIELDS if self.fused else FIELDS, **further, chunks=chunks, chunk=chunk, vectors=vectors,
            tile_rows=tile_rows, tile_columns=len(borders), last_row=out_h - self.tile_h,
            last_column=out_w - self.tile_w, last_channel=c - self.vector, channels=c, height=h, pad_h=pad_h,
            pad_w=pad_w, x_image=h * w * pitches.x, x_row=w * pitches.x, y_image=out_h * out_w * pitches.y,
            y_row=out_w * pitches.y)
        other = (0,) if self.formula.operands == 2 else ()
        runs = row_runs(n, threads, n * chunks, tile_rows) if fusion.chained else 1
        return Launch((*arguments, *(kinds.index(border) for border in borders), *other),
                      (Phase("depthwise", n * chunks * tile_rows, runs=runs),))


@lru_cache(maxsize=512)
def _source(tile: ChannelTile, borders: tuple[tuple[int, int], ...]) -> KernelSource:
    return KernelSource("\n".join([
        declarations(tile.vector), declare_epilogue(tile.formula, tile.vector, y=tile.elements.y),
        *(_tile(tile, number, *border) for number, border in enumerate(borders)), _run(tile, len(borders))]))


def _tile(tile: ChannelTile, number: int, left: int, right: int) -> str:
    """Compute vectors [first, last) of one tile. Its input rows [low, high) lie inside the image."""
    kind = f"<{tile.vector} x float>"
    write, with_other = Writer(FUSED_FIELDS), tile.formula.operands == 2
    channels, x_row, y_row, last_channel = (
        write.argument(name) for name in ("channels", "x_row", "y_row", "last_channel"))
    x_pixel, y_pixel = (write.argument(name) if tile.fused else channels for name in ("x_pixel", "y_pixel"))
    other_step = {name: write.argument(name) for name in ("other_row", "other_pixel") if with_other}
    element = tile.elements
    grid = Grid.begin(write, tile.formula, tile.tile_h, tile.tile_w, 1, tile.vector, element.y, element.other)
    reading: dict[int, list[tuple[int, int]]] = {}  # input row -> (output row, filter row)
    for t in range(tile.tile_h):
        for r in range(tile.r):
            reading.setdefault(t * tile.stride[0] + r * tile.dilation[0], []).append((t, r))
    inside = {}
    for i in sorted(reading):
        low, high = write.let(f"icmp sle i64 %low, {i}"), write.let(f"icmp sgt i64 %high, {i}")
        inside[i] = write.let(f"and i1 {low}, {high}")
    with write.loop("%first", "%last") as vector:
        channel = write.i64("umin", write.mul(vector, tile.vector), last_channel)
        x, y, w = element.x.at(write, "%x", channel), element.y.at(write, "%y", channel), write.at("%w", channel)
        start = write.load(kind, write.at("%bias", channel)) if tile.bias else "zeroinitializer"
        sums = {(t, j): start for t in range(tile.tile_h) for j in range(tile.tile_w)}
        for i in sorted(reading):
            before, old, name = write.block, dict(sums), write.fresh()[1:]
            write.do(f"br i1 {inside[i]}, label %row{name}, label %next{name}")
            write.label(f"row{name}")
            line = element.x.at(write, x, write.mul(x_row, i)) if i else x
            taps = {(r, s): write.load(kind, write.at(w, write.mul(channels, r * tile.s + s) if r + s else 0))
                    for r in sorted({r for _, r in reading[i]}) for s in range(tile.s)}
            for column in range(left, tile.wide - right):
                users = [(t, j, r, s) for t, r in reading[i] for s in range(tile.s) for j in range(tile.tile_w)
                         if j * tile.stride[1] + s * tile.dilation[1] == column]
                if not users:
                    continue
                value = element.x.load(write, tile.vector, element.x.at(
                    write, line, write.mul(x_pixel, column) if column else 0))
                for t, j, r, s in users:
                    sums[t, j] = write.fma(tile.vector, value, taps[r, s], sums[t, j])
            write.do(f"br label %next{name}")
            write.label(f"next{name}")
            for position, value in sums.items():
                if value != old[position]:
                    sums[position] = write.let(f"phi {kind} [ {old[position]}, %{before} ], [ {value}, %row{name} ]")
        overlap = write.i64("sub", write.mul(vector, tile.vector), channel) if with_other else ""
        if grid is not None:
            grid.store(list(sums.values()), y, {"y_row": y_row, "y_pixel": y_pixel, **other_step},
                       element.other.at(write, "%other", channel) if with_other else "", overlap)
        for t in range(tile.tile_h if grid is None else 0):
            line = element.y.at(write, y, write.mul(y_row, t)) if t else y
            for j in range(tile.tile_w):
                value = finished(write, tile.vector, tile.formula, sums[t, j])
                element.y.store(write, tile.vector, value, element.y.at(
                    write, line, write.mul(y_pixel, j) if j else 0))
    return write.function(f"internal void @tile{number}(ptr %x, ptr %w, ptr %bias, ptr %y, i64 %low, i64 %high, "
                          f"i64 %first, i64 %last, ptr %a{SKIPS if with_other else ''}) noinline")


def _run(tile: ChannelTile, kinds: int) -> str:
    fields, element = FUSED_FIELDS if tile.fused else FIELDS, tile.elements
    write, with_other = Writer(fields), tile.formula.operands == 2
    of = {name: write.argument(name) for name in fields}
    of = {"x_pixel": of["channels"], "y_pixel": of["channels"], **of}
    other = ""
    if with_other:
        pointer = write.let(f"getelementptr i64, ptr %a, i64 {write.add(of['tile_columns'], len(fields))}")
        other = write.let(f"load ptr, ptr {pointer}, align 8")
    with write.loop("%begin", "%end") as task:
        row, rest = write.i64("urem", task, of["tile_rows"]), write.i64("udiv", task, of["tile_rows"])
        chunk, image = write.i64("urem", rest, of["chunks"]), write.i64("udiv", rest, of["chunks"])
        first = write.mul(chunk, of["chunk"])
        last = write.i64("umin", write.add(first, of["chunk"]), of["vectors"])
        top = write.i64("umin", write.mul(row, tile.tile_h), of["last_row"])
        above = write.i64("sub", write.mul(top, tile.stride[0]), of["pad_h"])
        low = write.i64("sub", 0, above)
        high = write.i64("sub", of["height"], above)
        x = element.x.at(write, element.x.at(write, "%x", write.mul(image, of["x_image"])),
                         write.mul(above, of["x_row"]))
        y = element.y.at(write, element.y.at(write, "%y", write.mul(image, of["y_image"])),
                         write.mul(top, of["y_row"]))
        with write.loop(0, of["tile_columns"]) as column:
            pointer = write.let(f"getelementptr i64, ptr %a, i64 {write.add(column, len(fields))}")
            border = write.let(f"load i64, ptr {pointer}, align 8")
            left = write.i64("umin", write.mul(column, tile.tile_w), of["last_column"])
            from_ = element.x.at(write, x, write.mul(
                write.i64("sub", write.mul(left, tile.stride[1]), of["pad_w"]), of["x_pixel"]))
            to = element.y.at(write, y, write.mul(left, of["y_pixel"]))
            skips = ""
            if with_other:
                from_other = element.other.at(write, element.other.at(
                    write, other, write.mul(image, of["other_image"])), write.add(
                        write.mul(top, of["other_row"]), write.mul(left, of["other_pixel"])))
                skips = (f", ptr {from_other}, i64 {write.i64('sub', write.mul(row, tile.tile_h), top)}, "
                         f"i64 {write.i64('sub', write.mul(column, tile.tile_w), left)}")
            for number in range(kinds):
                with write.when(write.let(f"icmp eq i64 {border}, {number}")):
                    write.do(f"call void @tile{number}(ptr {from_}, ptr %w, ptr %bias, ptr {to}, i64 {low}, "
                             f"i64 {high}, i64 {first}, i64 {last}, ptr %a{skips})")
    return write.function(f"void @depthwise({ENTRY})")
