"""The stages of a Winograd convolution around its matrix products, as LLVM IR text.

The matrix products themselves are the tuned source.

A task is (image, block of tile rows, blocks of output channels), the latter innermost. For each new block of tile rows
its thread gathers the padded input, channels last, transforms it to V, and for every task multiplies V with the packed
filter to sums, which it transforms to outputs. All three lie in the thread's own slice of the workspace:

    gathered  [padded row][padded column][channel]
    V         [point][group of tiles][vector of channels][tile][lane]
    sums      [block of output channels][point][tile][lane]

The last tile of a row and of a column overlaps its predecessor, as does the last block of output channels.
"""

from __future__ import annotations

from functools import lru_cache

from ..text.formula import Formula
from ..text.writer import ENTRY, Writer, copy_floats, declarations, zero_floats
from .epilogue import OTHER_FIELDS, Grid, declare_epilogue, finished, other_base
from .tiling import write_piece
from .winograd_transforms import Lanes, input_values, output_values, square, transposed

# Launch arguments in order, each an i64; offsets and steps are in floats.
FIELDS = (
    "threads", "tasks", "piece", "v_offset", "sums_offset", "splits", "blocks", "block_rows", "tile_rows",
    "tile_columns", "last_row", "last_column", "x_image", "x_row", "x_channel", "height", "width", "pad_h", "pad_w",
    "channels", "channel_vectors", "padded_row", "turn", "v_point", "v_group", "sums_point", "group", "lanes",
    "k_blocks", "split_blocks", "last_k", "u_block", "y_image", "y_row", "y_pixel", "y_channel")

# Further launch arguments of a fusion: the step between the pixels of x, and the second operand of the epilogue.
FUSED_FIELDS = (*FIELDS, "x_pixel", *OTHER_FIELDS)
SKIPS = ", ptr %other, i64 %skip_columns, i64 %overlap"

RUN = f"{ENTRY}, ptr %multiply"


@lru_cache(maxsize=64)
def stages(m: int, vector: int, channels_last: bool, bias: bool, formula: Formula, pitched: bool) -> str:
    """The text of the module that defines `seqtune_winograd`; `pitched`: pixels of x lie apart from each other."""
    turns = () if channels_last else tuple(size for size in (1, 4, 8, 16) if size <= max(vector, 4))
    return "\n".join([
        declarations(vector), declare_epilogue(formula, vector), *(_turn(size) for size in turns),
        _gather(turns, pitched), _input(m, vector), _output(m, vector, channels_last, bias, formula), _fill(m, vector),
        _drain(m, formula.operands == 2), _run(m)])


def _turn(size: int) -> str:
    """Transpose a row of the input from channels-first to channels-last, in overlapping squares of `size`."""
    write = Writer(FIELDS)
    width, channels, pitch = (write.argument(name) for name in ("width", "channels", "x_channel"))
    kind = f"<{size} x float>"
    with write.loop(0, width, size) as column:
        left = write.i64("umin", column, write.i64("sub", width, size))
        with write.loop(0, channels, size) as channel:
            first = write.i64("umin", channel, write.i64("sub", channels, size))
            source = write.at(write.at("%x", write.mul(first, pitch)), left)
            to = write.at(write.at("%to", write.mul(left, channels)), first)
            rows = []
            for index in range(size):
                rows.append(write.load(kind, source))
                source = write.at(source, pitch) if index < size - 1 else source
            for index, pixel in enumerate(square(write, size, rows)):
                write.store(kind, pixel, to)
                to = write.at(to, channels) if index < size - 1 else to
    return write.function(f"internal void @turn{size}(ptr %to, ptr %x, ptr %a) noinline")


def _gather(turns: tuple[int, ...], pitched: bool) -> str:
    """Gather rows [top, top + rows) of the padded image, channels last."""
    write = Writer(FUSED_FIELDS)
    names = ("pad_h", "pad_w", "height", "width", "x_row", "padded_row", "channels")
    of = {name: write.argument(name) for name in names}
    border = write.mul(of["pad_w"], of["channels"])
    inner = write.mul(of["width"], of["channels"])
    turn = write.argument("turn") if turns else ""
    x_pixel = write.argument("x_pixel") if pitched else ""
    with write.loop(0, "%rows") as row:
        to = write.at("%to", write.mul(row, of["padded_row"]))
        line = write.i64("sub", write.add("%top", row), of["pad_h"])
        inside = write.let(f"icmp ult i64 {line}, {of['height']}")
        with write.when(write.let(f"xor i1 {inside}, true")):
            zero_floats(write, to, of["padded_row"])
        with write.when(inside):
            source = write.at("%x", write.mul(line, of["x_row"]))
            zero_floats(write, to, border)
            middle = write.at(to, border)
            zero_floats(write, write.at(middle, inner), border)
            if pitched:
                with write.loop(0, of["width"]) as column:
                    copy_floats(write, write.at(middle, write.mul(column, of["channels"])),
                                write.at(source, write.mul(column, x_pixel)), of["channels"])
            elif not turns:
                copy_floats(write, middle, source, inner)
            for size in turns:
                with write.when(write.let(f"icmp eq i64 {turn}, {size}")):
                    write.do(f"call void @turn{size}(ptr {middle}, ptr {source}, ptr %a)")
    return write.function("internal void @gather(ptr %to, ptr %x, i64 %top, i64 %rows, ptr %a) noinline")


def _input(m: int, vector: int) -> str:
    """Transform one tile of the gathered input to V, one vector of channels after the other.

    The last vector reads into the next pixel.
    """
    alpha, kind = m + 2, f"<{vector} x float>"
    write = Writer(FIELDS)
    channels, row, point, count, group = (
        write.argument(name) for name in ("channels", "padded_row", "v_point", "channel_vectors", "group"))
    step = write.mul(group, vector)
    write.do("br label %vector")
    write.label("vector")
    write.do("%i = phi i64 [ 0, %entry ], [ %i1, %vector ]")
    write.do("%d = phi ptr [ %x, %entry ], [ %d1, %vector ]")
    write.do("%v = phi ptr [ %to, %entry ], [ %v1, %vector ]")
    lanes = Lanes(write, vector)
    columns: list[list[str]] = [[] for _ in range(alpha)]
    base = "%d"
    for i in range(alpha):
        base = write.at(base, row) if i else base
        for j in range(alpha):
            columns[j].append(write.load(kind, write.at(base, write.mul(channels, j) if j > 1 else j and channels)))
    transformed = [input_values(lanes, column) for column in columns]
    to = "%v"
    for i in range(alpha):
        for value in input_values(lanes, [column[i] for column in transformed]):
            write.store(kind, value, to)
            to = write.at(to, point)
    write.do(f"%d1 = getelementptr float, ptr %d, i64 {vector}")
    write.do(f"%v1 = getelementptr float, ptr %v, i64 {step}")
    write.do("%i1 = add i64 %i, 1")
    write.do(f"%more = icmp ult i64 %i1, {count}")
    write.do("br i1 %more, label %vector, label %done")
    write.label("done")
    return write.function("internal void @input(ptr %to, ptr %x, ptr %a) noinline")


def _output(m: int, vector: int, channels_last: bool, bias: bool, formula: Formula) -> str:
    """Transform the sums of one tile to its outputs.

    The first `skip_rows` rows belong to the tile above: all are written to one row, which the last of them overwrites.
    """
    alpha, kind, with_other = m + 2, f"<{vector} x float>", formula.operands == 2
    write = Writer(FUSED_FIELDS)
    point, y_row, y_pixel, y_channel, count = (
        write.argument(name) for name in ("sums_point", "y_row", "y_pixel", "y_channel", "lanes"))
    rows = [write.at("%to", write.mul(write.i64("umax", i, "%skip_rows"), y_row)) for i in range(m)]
    step = {"y_row": y_row, "y_pixel": y_pixel,
            **{name: write.argument(name) for name in ("other_row", "other_pixel") if with_other}}
    grid = Grid.begin(write, formula, m, m, 1, vector) if channels_last else None
    with write.loop(0, count, vector) as first:
        lanes = Lanes(write, vector)
        source = write.at("%sums", first)
        half = []  # transformed along the rows
        for i in range(alpha):
            line = []
            for j in range(alpha):
                line.append(write.load(kind, source))
                source = write.at(source, point) if i + j < 2 * alpha - 2 else source
            half.append(output_values(lanes, line))
        added = write.load(kind, write.at("%bias", first)) if bias else ""
        outputs = [output_values(lanes, [line[j] for line in half]) for j in range(m)]
        offset = write.mul(first, y_channel)
        if grid is not None:
            sums = [outputs[j][i] for i in range(m) for j in range(m)]
            grid.store([lanes.add(pixel, added) for pixel in sums] if bias else sums, write.at("%to", offset), step,
                       write.at("%other", offset) if with_other else "",
                       write.i64("sub", "%overlap", first) if with_other else "", skip_rows="%skip_rows")
        for i in range(m if grid is None else 0):
            pixels = [outputs[j][i] for j in range(m)]
            if bias:
                pixels = [lanes.add(pixel, added) for pixel in pixels]
            to = write.at(rows[i], offset)
            pixels = [finished(write, vector, formula, pixel) for pixel in pixels]
            if channels_last:
                for j, pixel in enumerate(pixels):
                    to = write.at(to, y_pixel) if j else to
                    write.store(kind, pixel, to)
                continue
            for channel, (value, lane) in enumerate(transposed(write, vector, pixels)):
                to = write.at(to, y_channel) if channel else to
                piece = write.shuffle(vector, value, "poison", range(lane, lane + m))
                write.store(f"<{m} x float>", piece, to)
    return write.function("internal void @output(ptr %sums, ptr %to, ptr %bias, i64 %skip_rows, ptr %a"
                          f"{SKIPS if with_other else ''}) noinline")


def _rows(write: Writer, block: str) -> tuple[str, str, str]:
    """The image, the first tile row and the number of tile rows of a block."""
    image = write.i64("udiv", block, write.argument("blocks"))
    each = write.argument("block_rows")
    first = write.mul(write.i64("urem", block, write.argument("blocks")), each)
    return image, first, write.i64("umin", each, write.i64("sub", write.argument("tile_rows"), first))


def _fill(m: int, vector: int) -> str:
    """Gather and transform the input of one block of tile rows."""
    write = Writer(FIELDS)
    names = ("last_row", "last_column", "tile_columns", "x_image", "channels", "padded_row", "v_offset", "v_group",
             "group")
    of = {name: write.argument(name) for name in names}
    image, first, rows = _rows(write, "%block")
    top = write.i64("umin", write.mul(first, m), of["last_row"])
    last = write.i64("umin", write.mul(write.i64("sub", write.add(first, rows), 1), m), of["last_row"])
    source = write.at("%x", write.mul(image, of["x_image"]))
    high = write.add(write.i64("sub", last, top), m + 2)
    write.do(f"call void @gather(ptr %piece, ptr {source}, i64 {top}, i64 {high}, ptr %a)")
    v = write.at("%piece", of["v_offset"])
    with write.loop(0, rows) as row:
        above = write.i64("sub", write.i64("umin", write.mul(write.add(first, row), m), of["last_row"]), top)
        line = write.at("%piece", write.mul(above, of["padded_row"]))
        before = write.mul(row, of["tile_columns"])
        with write.loop(0, of["tile_columns"]) as column:
            left = write.i64("umin", write.mul(column, m), of["last_column"])
            tile = write.add(before, column)
            to = write.at(write.at(v, write.mul(write.i64("udiv", tile, of["group"]), of["v_group"])),
                          write.mul(write.i64("urem", tile, of["group"]), vector))
            write.do(f"call void @input(ptr {to}, ptr {write.at(line, write.mul(left, of['channels']))}, ptr %a)")
    return write.function("internal void @fill(ptr %piece, ptr %x, i64 %block, ptr %a) noinline")


def _drain(m: int, with_other: bool) -> str:
    """Transform the sums of one task to outputs."""
    write = Writer(FUSED_FIELDS)
    names = ("last_row", "last_column", "tile_columns", "y_image", "y_row", "y_pixel", "y_channel", "lanes", "last_k",
             "sums_offset", "sums_point", *(OTHER_FIELDS[:-1] if with_other else ()))
    of = {name: write.argument(name) for name in names}
    image, first, rows = _rows(write, "%block")
    sums = write.at("%piece", of["sums_offset"])
    y = write.at("%y", write.mul(image, of["y_image"]))
    other = write.at(other_base(write), write.mul(image, of["other_image"])) if with_other else ""
    with write.loop("%k_first", "%k_last") as block:
        k = write.i64("umin", write.mul(block, of["lanes"]), of["last_k"])
        k_sums = write.at(sums, write.mul(write.mul(write.i64("sub", block, "%k_first"), (m + 2) ** 2),
                                          of["sums_point"]))
        k_y = write.at(y, write.mul(k, of["y_channel"]))
        k_bias = write.at("%bias", k)
        with write.loop(0, rows) as row:
            unclipped = write.mul(write.add(first, row), m)
            top = write.i64("umin", unclipped, of["last_row"])
            skip = write.i64("sub", unclipped, top)
            line = write.at(k_y, write.mul(top, of["y_row"]))
            before = write.mul(row, of["tile_columns"])
            with write.loop(0, of["tile_columns"]) as column:
                left = write.i64("umin", write.mul(column, m), of["last_column"])
                to = write.at(line, write.mul(left, of["y_pixel"]))
                source = write.at(k_sums, write.mul(write.add(before, column), of["lanes"]))
                skips = ""
                if with_other:
                    line_other = write.at(write.at(other, k), write.mul(top, of["other_row"]))
                    from_other = write.at(line_other, write.mul(left, of["other_pixel"]))
                    skips = (f", ptr {from_other}, i64 {write.i64('sub', write.mul(column, m), left)}, "
                             f"i64 {write.i64('sub', write.mul(block, of['lanes']), k)}")
                write.do(f"call void @output(ptr {source}, ptr {to}, ptr {k_bias}, i64 {skip}, ptr %a{skips})")
    return write.function(
        "internal void @drain(ptr %piece, ptr %y, ptr %bias, i64 %block, i64 %k_first, i64 %k_last, ptr %a) noinline")


def _run(m: int) -> str:
    """Process all tasks of one thread, in its slice of the workspace."""
    points = (m + 2) ** 2
    write = Writer(FIELDS)
    names = ("threads", "tasks", "piece", "splits", "split_blocks", "k_blocks", "tile_columns", "group", "v_offset",
             "v_point", "v_group", "sums_offset", "sums_point", "lanes", "u_block")
    of = {name: write.argument(name) for name in names}
    piece = write_piece(write, of["threads"], of["tasks"], of["piece"])
    v, sums = write.at(piece, of["v_offset"]), write.at(piece, of["sums_offset"])
    group_sums = write.mul(of["group"], of["lanes"])
    with write.loop("%begin", "%end") as task:
        split, block = write.i64("urem", task, of["splits"]), write.i64("udiv", task, of["splits"])
        first = write.let(f"icmp eq i64 {task}, %begin")
        other = write.let(f"icmp eq i64 {split}, 0")
        with write.when(write.let(f"or i1 {first}, {other}")):
            write.do(f"call void @fill(ptr {piece}, ptr %x, i64 {block}, ptr %a)")
        _, _, rows = _rows(write, block)
        tiles = write.mul(rows, of["tile_columns"])
        groups = write.i64("udiv", write.add(tiles, write.i64("sub", of["group"], 1)), of["group"])
        k_first = write.mul(split, of["split_blocks"])
        k_last = write.i64("umin", write.add(k_first, of["split_blocks"]), of["k_blocks"])
        with write.loop(0, points) as point:
            point_v = write.at(v, write.mul(point, of["v_point"]))
            with write.loop(k_first, k_last) as k:
                u = write.at("%w", write.mul(write.add(write.mul(k, points), point), of["u_block"]))
                index = write.add(write.mul(write.i64("sub", k, k_first), points), point)
                to = write.at(sums, write.mul(index, of["sums_point"]))
                with write.loop(0, groups) as group:
                    write.do(f"call void %multiply(ptr {write.at(to, write.mul(group, group_sums))}, "
                             f"ptr {write.at(point_v, write.mul(group, of['v_group']))}, ptr {u}, ptr %a)")
        write.do(f"call void @drain(ptr {piece}, ptr %y, ptr %bias, i64 {block}, i64 {k_first}, i64 {k_last}, ptr %a)")
    return write.function(f"void @seqtune_winograd({RUN})")
