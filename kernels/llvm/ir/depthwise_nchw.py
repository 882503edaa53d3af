"""Depthwise convolution of channels-first images as LLVM IR text: a vector holds pixels.

A task is one plane. Its thread copies the plane, zero-padded, into its slice of the workspace. The copy is split into
one sub-plane for every remainder of row and column modulo the strides, so that neighbouring outputs always read
neighbouring floats. Where a register block is wider than a row, the block treats all rows of the copy as one long row
and writes to a second slice; its rows are then copied to the output without the columns between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ...launches.implementation import KernelSource
from ...problem import Problem
from ..launch import Launch, Phase
from ..text.formula import Formula
from ..text.writer import ENTRY, Writer, declarations, in_order, zero_floats
from .epilogue import declare_epilogue, finished
from .tiling import pieces, write_piece

# Launch arguments in order, each an i64; steps are counted in floats.
FIELDS = (
    "threads", "tasks", "piece", "sums_offset", "height", "width", "pad_h", "pad_w", "pitch", "plane", "unit",
    "move", "x_plane", "y_plane", "out_h", "out_w", "channels", "flat", "rows", "last_row", "run", "last_run",
    "y_pitch")
UNITS = (1, 4, 8, 16)  # floats copied at once


@dataclass(frozen=True, slots=True)
class PixelTile:
    """The numbers that determine the source text. A register block is tile_h rows of tile_w vectors."""

    vector: int
    tile_w: int
    tile_h: int
    r: int
    s: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    bias: bool
    formula: Formula  # epilogue of the sum with the bias

    def source(self) -> KernelSource:
        """The source text; it depends on register block, filter, strides, dilation and epilogue alone."""
        return _source(self)

    def launch(self, problem: Problem, threads: int) -> Launch:
        """The launch arguments of a problem."""
        names = ("n", "c", "h", "w", "pad_h", "pad_w", "out_h", "out_w")
        n, c, h, w, pad_h, pad_w, out_h, out_w = (problem.size(name) for name in names)
        block = self.vector * self.tile_w
        flat = block > out_w
        pitch = -(-(w + 2 * pad_w) // self.stride[1])
        high = -(-(h + 2 * pad_h) // self.stride[0])
        plane = -(-pitch * high // 16) * 16
        run = (out_h - 1) * pitch + out_w if flat else out_w
        sums = -(-(run + block) // 16) * 16 if flat else 0
        reach = (self.s * self.dilation[1] + self.r * self.dilation[0] * pitch) + run + block  # reads past the end
        sums_offset = plane * self.stride[0] * self.stride[1] + -(-reach // 16) * 16
        piece, tasks = sums_offset + sums, n * c
        step = self.stride[1]
        unit = max(size for size in UNITS if size == 1 or (size * step <= w and step <= 2))
        arguments = in_order(
            FIELDS, threads=threads, tasks=tasks, piece=piece, sums_offset=sums_offset, height=h, width=w, pad_h=pad_h,
            pad_w=pad_w, pitch=pitch, plane=plane, unit=unit,
            move=max(size for size in UNITS if size <= out_w), x_plane=h * w, y_plane=out_h * out_w, out_h=out_h,
            out_w=out_w, channels=c, flat=int(flat), rows=1 if flat else out_h,
            last_row=0 if flat else out_h - self.tile_h, run=run, last_run=max(0, run - block),
            y_pitch=pitch if flat else out_w)
        return Launch(arguments, (Phase("depthwise", tasks),), pieces(threads, tasks) * piece)


@lru_cache(maxsize=512)
def _source(tile: PixelTile) -> KernelSource:
    step = tile.stride[1]
    units = UNITS if step <= 2 else UNITS[:1]
    around = "\n".join([declarations(), *(_row(step, unit) for unit in units), _pad(tile.stride, units),
                        *(_move(unit) for unit in UNITS), _run()])
    entry = (f"declare void @seqtune_planes({ENTRY}, ptr %tile)\n"
             f"define void @depthwise({ENTRY}) nounwind {{\n"
             f"  call void @seqtune_planes({ENTRY}, ptr @tile)\n  ret void\n}}")
    return KernelSource("\n".join([
        declarations(tile.vector), declare_epilogue(tile.formula, tile.vector), _tile(tile), entry]), (around,))


def _row(step: int, unit: int) -> str:
    """Copy one row into its sub-planes: column j of the padded image is float j // step of sub-plane j % step."""
    write = Writer(FIELDS)
    width, pad, plane = (write.argument(name) for name in ("width", "pad_w", "plane"))

    def target(padded: str) -> str:
        return write.at(write.at("%to", write.i64("udiv", padded, step)),
                        write.mul(write.i64("urem", padded, step), plane))

    if unit == 1:
        with write.loop(0, width) as column:
            write.store("float", write.load("float", write.at("%x", column)), target(write.add(column, pad)))
        return write.function("internal void @row1(ptr %to, ptr %x, ptr %a)")
    floats, kind = unit * step, f"<{unit} x float>"
    bases = [target(write.add(pad, remainder)) for remainder in range(step)]
    most = write.i64("and", write.i64("sub", width, floats), -step)
    with write.loop(0, width, floats) as column:
        first = write.i64("umin", column, most)
        loaded = write.load(f"<{floats} x float>", write.at("%x", first))
        along = write.i64("udiv", first, step)
        for remainder, base in enumerate(bases):
            value = loaded if step == 1 else write.shuffle(floats, loaded, "poison", range(remainder, floats, step))
            write.store(kind, value, write.at(base, along))
    if step > 1:  # the last column of an odd row
        last = write.i64("sub", width, 1)
        write.store("float", write.load("float", write.at("%x", last)), target(write.add(last, pad)))
    return write.function(f"internal void @row{unit}(ptr %to, ptr %x, ptr %a)")


def _pad(stride: tuple[int, int], units: tuple[int, ...]) -> str:
    """Copy one plane into the interior of its padded copy."""
    write = Writer(FIELDS)
    names = ("height", "pad_h", "pitch", "plane", "unit", "width")
    of = {name: write.argument(name) for name in names}
    for unit in units:
        with (write.when(write.let(f"icmp eq i64 {of['unit']}, {unit}")), write.loop(0, of["height"]) as row):
            padded = write.add(row, of["pad_h"])
            above = write.mul(write.i64("udiv", padded, stride[0]), of["pitch"])
            planes = write.mul(write.mul(write.i64("urem", padded, stride[0]), stride[1]), of["plane"])
            to = write.at(write.at("%to", above), planes)
            write.do(f"call void @row{unit}(ptr {to}, ptr {write.at('%x', write.mul(row, of['width']))}, ptr %a)")
    return write.function("internal void @pad(ptr %to, ptr %x, ptr %a) noinline")


def _move(unit: int) -> str:
    """Copy the rows of the second slice to the output."""
    write = Writer(FIELDS)
    out_h, out_w, pitch = (write.argument(name) for name in ("out_h", "out_w", "pitch"))
    with write.loop(0, out_h) as row:
        source, to = write.at("%from", write.mul(row, pitch)), write.at("%to", write.mul(row, out_w))
        with write.loop(0, out_w, unit) as column:
            first = write.i64("umin", column, write.i64("sub", out_w, unit)) if unit > 1 else column
            write.store(f"<{unit} x float>", write.load(f"<{unit} x float>", write.at(source, first)),
                        write.at(to, first))
    return write.function(f"internal void @move{unit}(ptr %to, ptr %from, ptr %a) noinline")


def _run() -> str:
    """Process all planes of one thread, in its slice of the workspace."""
    write = Writer(FIELDS)
    of = {name: write.argument(name) for name in FIELDS}
    piece = write_piece(write, of["threads"], of["tasks"], of["piece"])
    sums = write.at(piece, of["sums_offset"])
    is_flat = write.let(f"icmp ne i64 {of['flat']}, 0")
    with write.when(write.let("icmp slt i64 %begin, %end")):
        zero_floats(write, piece, of["sums_offset"])
    with write.loop("%begin", "%end") as task:
        y = write.at("%y", write.mul(task, of["y_plane"]))
        write.do(f"call void @pad(ptr {piece}, ptr {write.at('%x', write.mul(task, of['x_plane']))}, ptr %a)")
        to = write.let(f"select i1 {is_flat}, ptr {sums}, ptr {y}")
        write.do(f"call void %tile(ptr {to}, ptr {piece}, ptr %w, ptr %bias, "
                 f"i64 {write.i64('urem', task, of['channels'])}, ptr %a)")
        with write.when(is_flat):
            for unit in UNITS:
                with write.when(write.let(f"icmp eq i64 {of['move']}, {unit}")):
                    write.do(f"call void @move{unit}(ptr {y}, ptr {sums}, ptr %a)")
    return write.function(f"void @seqtune_planes({ENTRY}, ptr %tile)")


def _tile(tile: PixelTile) -> str:
    """Compute one plane from its padded copy, one register block after the other."""
    kind = f"<{tile.vector} x float>"
    write = Writer(FIELDS)
    names = ("pitch", "plane", "rows", "last_row", "run", "last_run", "y_pitch")
    of = {name: write.argument(name) for name in names}
    taps = tile.r * tile.s
    channel_filter = write.at("%w", write.mul("%channel", taps))
    filters = [write.splat(tile.vector, write.load("float", write.at(channel_filter, tap))) for tap in range(taps)]
    start = ("zeroinitializer" if not tile.bias else
             write.splat(tile.vector, write.load("float", write.at("%bias", "%channel"))))
    # (remainder of row, remainder of column, row, column) in the copy -> the (output row of the block, tap) reading it
    reading: dict[tuple[int, int, int, int], list[tuple[int, int]]] = {}
    for t in range(tile.tile_h):
        for tap in range(taps):
            row, column = tap // tile.s * tile.dilation[0], tap % tile.s * tile.dilation[1]
            source = (row % tile.stride[0], column % tile.stride[1], t + row // tile.stride[0],
                      column // tile.stride[1])
            reading.setdefault(source, []).append((t, tap))
    bases = {}
    for row_left, column_left, row, _ in reading:
        planes = row_left * tile.stride[1] + column_left
        offset = write.add(write.mul(of["plane"], planes), write.mul(of["pitch"], row))
        bases[row_left, column_left, row] = offset
    with write.loop(0, of["rows"], tile.tile_h) as index:
        top = write.i64("umin", index, of["last_row"])
        line, to_line = write.at("%x", write.mul(top, of["pitch"])), write.at("%to", write.mul(top, of["y_pitch"]))
        starts = {key: write.at(line, offset) for key, offset in bases.items()}
        with write.loop(0, of["run"], tile.tile_w * tile.vector) as along:
            left = write.i64("umin", along, of["last_run"])
            sums = {(t, j): start for t in range(tile.tile_h) for j in range(tile.tile_w)}
            for (row_left, column_left, row, column), users in reading.items():
                start_of_row = write.at(starts[row_left, column_left, row], left)
                for j in range(tile.tile_w):
                    value = write.load(kind, write.at(start_of_row, column + j * tile.vector))
                    for t, tap in users:
                        sums[t, j] = write.fma(tile.vector, filters[tap], value, sums[t, j])
            to = write.at(to_line, left)
            for t in range(tile.tile_h):
                to = write.at(to, of["y_pitch"]) if t else to
                for j in range(tile.tile_w):
                    value = finished(write, tile.vector, tile.formula, sums[t, j])
                    write.store(kind, value, write.at(to, j * tile.vector))
    return write.function("internal void @tile(ptr %to, ptr %x, ptr %w, ptr %bias, i64 %channel, ptr %a) noinline")
