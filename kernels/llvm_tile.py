"""The register-blocked tile that both llvm kernels are made of, as LLVM IR text.

A tile is `tile_h` x `tile_w` output pixels by `vectors` vectors of `vector` output channels, kept in registers while
the whole reduction (input channels x filter taps) passes. A matrix product is the same tile: its pixels are rows of A.
The text holds no size of the problem but the filter and the step between pixels; the rest comes in `arguments`, an
array of i64 that `arguments()` lays out, so one compiled tile serves every problem that shares those. The loops around
a tile and the padding copy are a module of their own, the same for all tiles: compiled with each, they would double the
time that takes.

The last tile of a row, of a column and of the channels overlaps its predecessor: whole sums are stored, so storing one
twice does no harm. Only `llvm.fmuladd` is used: it is a fused multiply-add where the target has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from seqtune.kernels.implementation import Source

# What one pass of the innermost loop does; c<n> is n input channels of one filter tap.
BODIES = ("row", "filter", "c1", "c2", "c4", "c8")

FIELDS = (
    "tile_columns", "tiles", "last_column", "last_row", "chunk", "chunks", "k_tasks", "k_blocks_per_task", "k_blocks",
    "last_k", "groups", "x_image", "x_group", "x_row", "x_tap_row", "x_tap_column", "x_channel", "channels", "y_image",
    "y_group", "y_row", "y_pixel", "y_channel", "weights_block", "pad_rows", "pad_top", "pad_left", "pad_right",
    "source_rows", "source_row", "padded_row", "x_column", "block", "tile_w", "tile_h")


def arguments(**given: int) -> tuple[int, ...]:
    """The launch arguments in order; steps are floats, and what is not given is 0."""
    unknown = set(given) - set(FIELDS)
    assert not unknown, unknown
    return tuple(given.get(name, 0) for name in FIELDS)


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


_INDEX = {name: place for place, name in enumerate(FIELDS)}


class _Writer:
    """Lines of IR and fresh names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def let(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %t{self.count} = {text}")
        return f"%t{self.count}"

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def argument(self, name: str) -> str:
        pointer = self.let(f"getelementptr i64, ptr %a, i64 {_INDEX[name]}")
        return self.let(f"load i64, ptr {pointer}, align 8")

    def at(self, base: str, offset: str | int) -> str:
        return base if offset == 0 else self.let(f"getelementptr float, ptr {base}, i64 {offset}")


@lru_cache(maxsize=512)  # configurations that differ in what arrives at run time follow each other
def _source(tile: Tile) -> Source:
    return Source("\n".join([_tile(tile), _ENTRIES]), (_SHARED,))


def _tile(tile: Tile) -> str:
    write = _Writer()
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


def _bases(write: _Writer, tile: Tile, step: dict[str, str], inside: list[tuple[int, int]], each: int) -> list[str]:
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


def _multiply(write: _Writer, tile: Tile, kind: str, place: int, base: str, x_row: str, sums: list[str],
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


def _finish(write: _Writer, tile: Tile, kind: str, index: int) -> str:
    """The epilogue of one accumulator."""
    value = f"%s{index}"
    if tile.bias:
        pointer = write.at("%bias", index % tile.vectors * tile.vector)
        value = write.let(f"fadd {kind} {value}, {write.let(f'load {kind}, ptr {pointer}, align 4')}")
    if tile.relu:
        above = write.let(f"fcmp ogt {kind} {value}, zeroinitializer")
        value = write.let(f"select <{tile.vector} x i1> {above}, {kind} {value}, {kind} zeroinitializer")
    return value


def _store(write: _Writer, tile: Tile, kind: str, sums: list[str], step: dict[str, str]) -> None:
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


def _transpose(write: _Writer, tile: Tile, kind: str, pixels: list[str]) -> list[list[tuple[int, str]]]:
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


def _shuffle(write: _Writer, kind: str, first: str, second: str, lanes: list[int]) -> str:
    mask = ", ".join(f"i32 {lane}" for lane in lanes)
    return write.let(f"shufflevector {kind} {first}, {kind} {second}, <{len(lanes)} x i32> <{mask}>")


_ENTRY = "ptr %x, ptr %w, ptr %bias, ptr %y, ptr %workspace, ptr %a, i64 %begin, i64 %end"
_LOOPS = "ptr %x, ptr %w, ptr %bias, ptr %y, ptr %a, i64 %begin, i64 %end, ptr %tile"
_PADS = "ptr %x, ptr %workspace, ptr %a, i64 %begin, i64 %end"
_ENTRIES = f"""declare void @seqtune_tiles({_LOOPS})
declare void @seqtune_pad({_PADS})
define void @direct({_ENTRY}) nounwind {{
  call void @seqtune_tiles({_LOOPS.replace('%tile', '@tile')})
  ret void
}}
define void @padded({_ENTRY}) nounwind {{
  call void @seqtune_tiles({_LOOPS.replace('%tile', '@tile').replace('%x', '%workspace')})
  ret void
}}
define void @pad({_ENTRY}) nounwind {{
  call void @seqtune_pad({_PADS})
  ret void
}}"""


def _driver() -> str:
    """Tasks -> channel blocks -> tiles. A task is (image, group, channel blocks, chunk of tiles), chunks innermost."""
    write = _Writer()
    names = (*FIELDS[:FIELDS.index("x_row") + 1], "x_column", "y_image", "y_group", "y_row", "y_pixel", "y_channel",
             "weights_block", "block", "tile_w", "tile_h")
    write.label("entry")
    of = {name: write.argument(name) for name in names}
    per_group = write.let(f"add i64 {of['last_k']}, {of['block']}")

    def i64(operation: str, left: str, right: str | int) -> str:
        if operation == "umin":
            return write.let(f"call i64 @llvm.umin.i64(i64 {left}, i64 {right})")
        return write.let(f"{operation} i64 {left}, {right}")

    write.do("%some = icmp ult i64 %begin, %end")
    write.do("br i1 %some, label %task, label %done")
    write.label("task")
    write.do("%t = phi i64 [ %begin, %entry ], [ %tn, %task_next ]")
    chunk, rest = i64("urem", "%t", of["chunks"]), i64("udiv", "%t", of["chunks"])
    k_task, rest = i64("urem", rest, of["k_tasks"]), i64("udiv", rest, of["k_tasks"])
    group, image = i64("urem", rest, of["groups"]), i64("udiv", rest, of["groups"])
    x = write.at(write.at("%x", i64("mul", image, of["x_image"])), i64("mul", group, of["x_group"]))
    y = write.at(write.at("%y", i64("mul", image, of["y_image"])), i64("mul", group, of["y_group"]))
    first = i64("mul", chunk, of["chunk"])
    last = i64("umin", i64("add", first, of["chunk"]), of["tiles"])
    k_first = i64("mul", k_task, of["k_blocks_per_task"])
    k_last = i64("umin", i64("add", k_first, of["k_blocks_per_task"]), of["k_blocks"])
    column, row = i64("urem", first, of["tile_columns"]), i64("udiv", first, of["tile_columns"])
    panels = i64("mul", group, of["k_blocks"])
    bias = write.at("%bias", i64("mul", group, per_group))
    write.do("br label %block")
    write.label("block")
    write.do(f"%k = phi i64 [ {k_first}, %task ], [ %kn, %block_next ]")
    k = i64("umin", i64("mul", "%k", of["block"]), of["last_k"])
    weights = write.at("%w", i64("mul", i64("add", panels, "%k"), of["weights_block"]))
    k_bias = write.at(bias, k)
    k_y = write.at(y, i64("mul", k, of["y_channel"]))
    write.do("br label %each")
    write.label("each")
    write.do(f"%i = phi i64 [ {first}, %block ], [ %in, %each ]")
    write.do(f"%column = phi i64 [ {column}, %block ], [ %cn, %each ]")
    write.do(f"%row = phi i64 [ {row}, %block ], [ %rn, %each ]")
    left = i64("umin", i64("mul", "%column", of["tile_w"]), of["last_column"])
    top = i64("umin", i64("mul", "%row", of["tile_h"]), of["last_row"])
    from_ = write.at(write.at(x, i64("mul", top, of["x_row"])), i64("mul", left, of["x_column"]))
    to = write.at(write.at(k_y, i64("mul", top, of["y_row"])), i64("mul", left, of["y_pixel"]))
    write.do(f"call void %tile(ptr {from_}, ptr {weights}, ptr {k_bias}, ptr {to}, ptr %a)")
    right = i64("add", "%column", 1)
    write.do(f"%wrap = icmp eq i64 {right}, {of['tile_columns']}")
    below = i64("add", "%row", 1)
    write.do(f"%cn = select i1 %wrap, i64 0, i64 {right}")
    write.do(f"%rn = select i1 %wrap, i64 {below}, i64 %row")
    write.do("%in = add i64 %i, 1")
    write.do(f"%again = icmp ult i64 %in, {last}")
    write.do("br i1 %again, label %each, label %block_next")
    write.label("block_next")
    write.do("%kn = add i64 %k, 1")
    write.do(f"%moreblocks = icmp ult i64 %kn, {k_last}")
    write.do("br i1 %moreblocks, label %block, label %task_next")
    write.label("task_next")
    write.do("%tn = add i64 %t, 1")
    write.do("%moretasks = icmp ult i64 %tn, %end")
    write.do("br i1 %moretasks, label %task, label %done")
    write.label("done")
    write.do("ret void")
    return "\n".join(["declare i64 @llvm.umin.i64(i64, i64)",
                      f"define void @seqtune_tiles({_LOOPS}) nounwind {{", *write.lines, "}"])


def _move(name: str, load: str, load_wide: str, value: str) -> str:
    """`name(to, from, count)`: eight floats at a time, the last eight overlapping; one by one where there are fewer."""
    return f"""
define internal void @{name}(ptr %to, ptr %from, i64 %count) noinline nounwind {{
entry:
  %last = sub i64 %count, 8
  %none = icmp eq i64 %count, 0
  br i1 %none, label %done, label %some
some:
  %wide = icmp uge i64 %count, 8
  br i1 %wide, label %eight, label %one
eight:
  %i = phi i64 [ 0, %some ], [ %inext, %eight ]
  %b = getelementptr float, ptr %to, i64 %i
  {load_wide}
  store <8 x float> {value}8, ptr %b, align 4
  %i8 = add i64 %i, 8
  %inext = call i64 @llvm.umin.i64(i64 %i8, i64 %last)
  %more8 = icmp ult i64 %i, %last
  br i1 %more8, label %eight, label %done
one:
  %j = phi i64 [ 0, %some ], [ %jnext, %one ]
  %d = getelementptr float, ptr %to, i64 %j
  {load}
  store float {value}1, ptr %d, align 4
  %jnext = add i64 %j, 1
  %more1 = icmp ult i64 %jnext, %count
  br i1 %more1, label %one, label %done
done:
  ret void
}}"""


def _pad() -> str:
    """A task is one row of the padded input: zeros, or zeros, a copy, zeros."""
    write = _Writer()
    write.label("entry")
    names = ("pad_rows", "pad_top", "pad_left", "pad_right", "source_rows", "source_row", "padded_row")
    of = {name: write.argument(name) for name in names}
    write.do("br label %check")
    write.label("check")
    write.do("%t = phi i64 [ %begin, %entry ], [ %tn, %next ]")
    write.do("%some = icmp ult i64 %t, %end")
    write.do("br i1 %some, label %row, label %done")
    write.label("row")
    to = write.at("%workspace", write.let(f"mul i64 %t, {of['padded_row']}"))
    plane = write.let(f"udiv i64 %t, {of['pad_rows']}")
    padded_line = write.let(f"urem i64 %t, {of['pad_rows']}")
    line = write.let(f"sub i64 {padded_line}, {of['pad_top']}")
    write.do(f"%inside = icmp ult i64 {line}, {of['source_rows']}")
    write.do("br i1 %inside, label %copy, label %zero")
    write.label("copy")
    above = write.let(f"mul i64 {plane}, {of['source_rows']}")
    source = write.let(f"add i64 {above}, {line}")
    from_ = write.at("%x", write.let(f"mul i64 {source}, {of['source_row']}"))
    write.do(f"call void @zeros(ptr {to}, ptr null, i64 {of['pad_left']})")
    middle = write.at(to, of["pad_left"])
    write.do(f"call void @floats(ptr {middle}, ptr {from_}, i64 {of['source_row']})")
    write.do(f"call void @zeros(ptr {write.at(middle, of['source_row'])}, ptr null, i64 {of['pad_right']})")
    write.do("br label %next")
    write.label("zero")
    write.do(f"call void @zeros(ptr {to}, ptr null, i64 {of['padded_row']})")
    write.do("br label %next")
    write.label("next")
    write.do("%tn = add i64 %t, 1")
    write.do("br label %check")
    write.label("done")
    write.do("ret void")
    copy = "%p{0} = getelementptr float, ptr %from, i64 %{1}\n  %v{0} = load {2}, ptr %p{0}, align 4"
    none = "%v{0} = select i1 true, {2} zeroinitializer, {2} zeroinitializer"
    return "\n".join([
        _move("floats", copy.format(1, "j", "float"), copy.format(8, "i", "<8 x float>"), "%v"),
        _move("zeros", none.format(1, "", "float").replace("zeroinitializer", "0.0"),
              none.format(8, "", "<8 x float>"), "%v"),
        f"define void @seqtune_pad({_PADS}) nounwind {{", *write.lines, "}"])


_SHARED = "\n".join([_driver(), _pad()])
