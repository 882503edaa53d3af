"""The register-blocked tile that both llvm kernels are made of, as LLVM IR text.

A tile is `tile_h` x `tile_w` output pixels by `vectors` vectors of `vector` output channels, kept in registers while
the whole reduction (input channels x filter taps) passes. A matrix product is the same tile: its pixels are rows of A.
The text holds no size of the problem but the filter and the step between pixels; the rest comes in `arguments`, so one
compiled tile serves every problem that shares those.

The last tile of a row, of a column and of the channels overlaps its predecessor: whole sums are stored, so storing one
twice does no harm. Only `llvm.fmuladd` is used: it is a fused multiply-add where the target has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from seqtune.kernels.implementation import Source
from seqtune.kernels.llvm_loops import ENTRIES, LOOPS, Writer

# What one pass of the innermost loop does; c<n> is n input channels of one filter tap.
BODIES = ("row", "filter", "c1", "c2", "c4", "c8")


@dataclass(frozen=True, slots=True)
class Tile:
    """What decides a tile's text."""

    vector: int
    vectors: int
    tile_h: int
    tile_w: int
    body: str
    r: int
    s: int
    pixel_step: int  # floats between neighbouring output pixels' inputs
    channels_last: bool  # the output's channels are neighbours in memory; else its pixels are
    bias: bool
    relu: bool

    def source(self) -> Source:
        """Entries `direct` (x as given), `padded` (x in the workspace) and `pad` (fills that)."""
        return _source(self)


@lru_cache(maxsize=512)  # configurations that differ in what arrives at run time follow each other
def _source(tile: Tile) -> Source:
    return Source("\n".join([_tile(tile), ENTRIES]), (LOOPS,))


def _tile(tile: Tile) -> str:
    write = Writer()
    kind = f"<{tile.vector} x float>"
    count = tile.tile_h * tile.tile_w * tile.vectors
    names = ("x_row", "x_tap_row", "x_tap_column", "x_channel", "channels", "y_row", "y_pixel", "y_channel")
    write.label("entry")
    step = {name: write.argument(name) for name in names}
    # The loops: `major` (may be absent) around `minor`; both carry the accumulators, the weights pointer and x.
    taps = tile.r * tile.s
    each = int(tile.body[1:]) if tile.body.startswith("c") else 1
    if tile.body == "row":
        major, minor, minor_step = step["channels"], str(tile.r), step["x_tap_row"]
        inside = [(0, column) for column in range(tile.s)]
    elif tile.body == "filter":
        major, minor, minor_step = "", step["channels"], step["x_channel"]
        inside = [(row, column) for row in range(tile.r) for column in range(tile.s)]
    else:
        major = str(taps) if taps > 1 else ""
        minor = step["channels"] if each == 1 else write.let(f"udiv i64 {step['channels']}, {each}")
        minor_step = step["x_channel"] if each == 1 else write.let(f"mul i64 {step['x_channel']}, {each}")
        inside = []
    zero = "zeroinitializer"
    before, weights, sums = "entry", "%w", [zero] * count
    x = "%x"
    write.do(f"br label %{'major' if major else 'minor'}")
    if major:
        write.label("major")
        write.do("%ma = phi i64 [ 0, %entry ], [ %ma1, %next ]")
        write.do("%mx = phi ptr [ %x, %entry ], [ %mx1, %next ]")
        if tile.body != "row":
            write.do("%mrow = phi ptr [ %x, %entry ], [ %mrow1, %next ]")
            write.do("%mcol = phi i64 [ 0, %entry ], [ %mcol1, %next ]")
        write.do("%mw = phi ptr [ %w, %entry ], [ %w1, %next ]")
        for index in range(count):
            write.do(f"%m{index} = phi {kind} [ {zero}, %entry ], [ %s{index}, %next ]")
        write.do("br label %minor")
        before, weights, sums, x = "major", "%mw", [f"%m{index}" for index in range(count)], "%mx"
    write.label("minor")
    write.do(f"%i = phi i64 [ 0, %{before} ], [ %i1, %minor ]")
    write.do(f"%ix = phi ptr [ {x}, %{before} ], [ %ix1, %minor ]")
    write.do(f"%iw = phi ptr [ {weights}, %{before} ], [ %w1, %minor ]")
    for index in range(count):
        write.do(f"%i{index}a = phi {kind} [ {sums[index]}, %{before} ], [ %s{index}, %minor ]")
    sums = [f"%i{index}a" for index in range(count)]
    bases = _bases(write, tile, step, inside, each)
    for place, base in enumerate(bases):
        sums = _multiply(write, tile, kind, place, base, step["x_row"], sums, place == len(bases) - 1)
    write.do(f"%w1 = getelementptr float, ptr %iw, i64 {len(bases) * tile.vector * tile.vectors}")
    write.do(f"%ix1 = getelementptr float, ptr %ix, i64 {minor_step}")
    write.do("%i1 = add nuw i64 %i, 1")
    write.do(f"%more = icmp ult i64 %i1, {minor}")
    write.do(f"br i1 %more, label %minor, label %{'next' if major else 'store'}")
    if major:
        write.label("next")
        if tile.body == "row":
            write.do(f"%mx1 = getelementptr float, ptr %mx, i64 {step['x_channel']}")
        else:  # the next tap of the row, or the first of the next row
            write.do("%mcol0 = add i64 %mcol, 1")
            write.do(f"%wrap = icmp eq i64 %mcol0, {tile.s}")
            write.do(f"%below = getelementptr float, ptr %mrow, i64 {step['x_tap_row']}")
            write.do(f"%right = getelementptr float, ptr %mx, i64 {step['x_tap_column']}")
            write.do("%mx1 = select i1 %wrap, ptr %below, ptr %right")
            write.do("%mrow1 = select i1 %wrap, ptr %below, ptr %mrow")
            write.do("%mcol1 = select i1 %wrap, i64 0, i64 %mcol0")
        write.do("%ma1 = add nuw i64 %ma, 1")
        write.do(f"%mmore = icmp ult i64 %ma1, {major}")
        write.do("br i1 %mmore, label %major, label %store")
    write.label("store")
    _store(write, tile, kind, [_finish(write, tile, kind, index) for index in range(count)], step)
    write.do("ret void")
    width = f"v{tile.vector}f32"
    return "\n".join([
        f"declare {kind} @llvm.fmuladd.{width}({kind}, {kind}, {kind})",
        "define internal void @tile(ptr %x, ptr %w, ptr %bias, ptr %y, ptr %a) noinline nounwind {",
        *write.lines, "}"])


def _bases(write: Writer, tile: Tile, step: dict[str, str], inside: list[tuple[int, int]], each: int) -> list[str]:
    """The pointer to the first pixel's input of every unrolled tap or channel, in the weights' order."""
    found: list[str] = []
    if not inside:
        pointer = "%ix"
        for place in range(each):
            pointer = write.at(pointer, step["x_channel"]) if place else pointer
            found.append(pointer)
        return found
    row_pointer = pointer = "%ix"
    last = 0
    for row, column in inside:
        if row != last:
            row_pointer = pointer = write.at(row_pointer, step["x_tap_row"])
            last = row
        elif column:
            pointer = write.at(pointer, step["x_tap_column"])
        found.append(pointer)
    return found


def _multiply(write: Writer, tile: Tile, kind: str, place: int, base: str, x_row: str, sums: list[str],
              last: bool) -> list[str]:
    """One tap of one channel: every pixel's input times every vector of weights. The last one names the sums %s<n>."""
    sums = list(sums)
    loaded = []
    for vector in range(tile.vectors):
        pointer = write.at("%iw", (place * tile.vectors + vector) * tile.vector)
        loaded.append(write.let(f"load {kind}, ptr {pointer}, align 4"))
    row = base
    for i in range(tile.tile_h):
        row = write.at(row, x_row) if i else row
        for j in range(tile.tile_w):
            value = write.let(f"load float, ptr {write.at(row, j * tile.pixel_step)}, align 4")
            first = write.let(f"insertelement {kind} poison, float {value}, i32 0")
            splat = write.let(f"shufflevector {kind} {first}, {kind} poison, <{tile.vector} x i32> zeroinitializer")
            for vector in range(tile.vectors):
                index = (i * tile.tile_w + j) * tile.vectors + vector
                text = (f"call contract {kind} @llvm.fmuladd.v{tile.vector}f32({kind} {splat}, "
                        f"{kind} {loaded[vector]}, {kind} {sums[index]})")
                if last:
                    write.do(f"%s{index} = {text}")
                sums[index] = f"%s{index}" if last else write.let(text)
    return sums


def _finish(write: Writer, tile: Tile, kind: str, index: int) -> str:
    """The epilogue of one accumulator."""
    value = f"%s{index}"
    if tile.bias:
        pointer = write.at("%bias", index % tile.vectors * tile.vector)
        value = write.let(f"fadd {kind} {value}, {write.let(f'load {kind}, ptr {pointer}, align 4')}")
    if tile.relu:
        above = write.let(f"fcmp ogt {kind} {value}, zeroinitializer")
        value = write.let(f"select <{tile.vector} x i1> {above}, {kind} {value}, {kind} zeroinitializer")
    return value


def _store(write: Writer, tile: Tile, kind: str, sums: list[str], step: dict[str, str]) -> None:
    row = "%y"
    for i in range(tile.tile_h):
        row = write.at(row, step["y_row"]) if i else row
        mine = sums[i * tile.tile_w * tile.vectors:(i + 1) * tile.tile_w * tile.vectors]
        if tile.channels_last:
            pixel = row
            for j in range(tile.tile_w):
                pixel = write.at(pixel, step["y_pixel"]) if j else pixel
                for vector in range(tile.vectors):
                    write.do(f"store {kind} {mine[j * tile.vectors + vector]}, "
                             f"ptr {write.at(pixel, vector * tile.vector)}, align 4")
            continue
        channel = row
        for vector in range(tile.vectors):
            rows = _transpose(write, tile, kind, mine[vector::tile.vectors])
            for place, pieces in enumerate(rows):
                channel = write.at(channel, step["y_channel"]) if vector or place else channel
                offset = 0
                for width, piece in pieces:
                    write.do(f"store <{width} x float> {piece}, ptr {write.at(channel, offset)}, align 4")
                    offset += width


def _transpose(write: Writer, tile: Tile, kind: str, pixels: list[str]) -> list[list[tuple[int, str]]]:
    """Per channel, the pixels' values as (width, value) pieces.

    Interleaving the halves of [pixel][channel] log2(pixels) times gives [channel][pixel].
    """
    lanes, wide = tile.vector, 1
    while wide < tile.tile_w:
        wide *= 2
    vectors = pixels + ["poison"] * (wide - tile.tile_w)
    mask = [lane // 2 + (lanes if lane % 2 else 0) for lane in range(2 * lanes)]
    for _ in range(wide.bit_length() - 1):
        apart = []
        for low, high in zip(vectors[:wide // 2], vectors[wide // 2:], strict=True):
            if lanes == 1 or low == high == "poison":
                apart += [low, high]
            else:
                apart += [_shuffle(write, kind, low, high, half) for half in (mask[:lanes], mask[lanes:])]
        vectors = apart
    rows: list[list[tuple[int, str]]] = []
    for channel in range(lanes):
        pieces, begin = [], channel * wide
        end = begin + tile.tile_w
        while begin < end:
            place, offset = divmod(begin, lanes)
            width = min(lanes - offset, end - begin)
            whole = width == lanes
            pieces.append((width, vectors[place] if whole else _shuffle(
                write, kind, vectors[place], "poison", list(range(offset, offset + width)))))
            begin += width
        rows.append(pieces)
    return rows


def _shuffle(write: Writer, kind: str, first: str, second: str, lanes: list[int]) -> str:
    mask = ", ".join(f"i32 {lane}" for lane in lanes)
    return write.let(f"shufflevector {kind} {first}, {kind} {second}, <{len(lanes)} x i32> <{mask}>")
