"""The loops around a tile, over tasks, channel blocks and tiles, and the padding copy, as LLVM IR text.

They form one module that all tiles share and that is built once: compiling them with each tile would double build time.
"""

from __future__ import annotations

from functools import lru_cache, partial
from string import Template

from ...files import sections
from ..text.writer import ENTRY, Writer, in_order
from .epilogue import OTHER, OTHER_FIELDS, other_base

# Launch arguments in order, each an i64. Steps and offsets are in elements of x, y or the second operand: x_tap_*
# between filter taps; w_* are in the floats of packed weights. The filter's rows that a tile sees are those on the
# input's `inside_rows`, the first of which is `above` rows below the first tile's first tap.
FIELDS = (
    "tile_columns", "tiles", "last_column", "last_row", "chunk", "chunks", "k_tasks", "k_blocks_per_task", "k_blocks",
    "last_k", "groups", "x_image", "x_group", "x_row", "x_tap_row", "x_tap_column", "x_channel", "channels", "y_image",
    "y_group", "y_row", "y_pixel", "y_channel", "weights_block", "pad_rows", "pad_top", "pad_left", "pad_right",
    "source_rows", "source_row", "padded_row", "x_column", "block", "tile_w", "tile_h", "x_first", "last_inner",
    "filter_rows", "inside_rows", "above", "row_step", "tap_row_step", "w_channel", "w_tap")
# Further launch arguments of a fusion: pixels of a row of x that is copied, the step between them, elements of each;
# the second operand of the epilogue.
FUSED_FIELDS = (*FIELDS, "source_pixels", "source_pixel", "pixel", *OTHER_FIELDS)


def arguments(fused: bool, **values: int) -> tuple[int, ...]:
    """The launch arguments in order, with those of a fusion if `fused`; missing ones are 0."""
    fields = FUSED_FIELDS if fused else FIELDS
    return in_order(fields, **{**dict.fromkeys(fields, 0), **values})


_RUN = "ptr %x, ptr %w, ptr %bias, ptr %y, ptr %a, i64 %begin, i64 %end, ptr %tile"
_PADS = "ptr %x, ptr %workspace, ptr %a, i64 %begin, i64 %end"
# Filter rows from %row_begin before %row_end; %place 0 is at the left end of a row of tiles, 2 at the right end.
_TILE = "ptr %x, ptr %w, ptr %bias, ptr %y, ptr %a, i64 %row_begin, i64 %row_end, i64 %place"
# The tile's share of the next panel begins at %ahead; its size is that of a panel, shifted right by %shift.
_PREFETCH = ", ptr %ahead, i64 %shift"
TILES = f"call void @seqtune_tiles({_RUN.replace('%tile', '@tile')})"  # of the entry `direct`
_MOVE = Template(sections(__file__, "task_loops.ll")["move"].rstrip("\n"))
ENTRIES = f"""declare void @seqtune_tiles({_RUN})
declare void @seqtune_pad({_PADS})
define void @direct({ENTRY}) nounwind {{
  {TILES}
  ret void
}}
define void @padded({ENTRY}) nounwind {{
  call void @seqtune_tiles({_RUN.replace('%tile', '@tile').replace('%x', '%workspace')})
  ret void
}}
define void @pad({ENTRY}) nounwind {{
  call void @seqtune_pad({_PADS})
  ret void
}}"""


def signature(with_other: bool, prefetches: bool) -> str:
    """The parameters of a tile."""
    return _TILE + OTHER * with_other + _PREFETCH * prefetches


def _driver(with_other: bool, prefetches: bool, x_kind: str, y_kind: str, other_kind: str) -> str:
    """Loop over tasks, channel blocks and tiles.

    A task is (image, group, channel blocks, chunk of tiles), chunks innermost.
    """
    write = Writer(FUSED_FIELDS)
    i64 = write.i64
    in_x, in_y, in_other = (partial(write.at, kind=kind) for kind in (x_kind, y_kind, other_kind))
    names = (*FIELDS[:FIELDS.index("x_row") + 1], "x_column", "y_image", "y_group", "y_row", "y_pixel", "y_channel",
             "weights_block", "block", "tile_w", "tile_h", *FIELDS[FIELDS.index("x_first"):],
             *(OTHER_FIELDS[:-1] if with_other else ()))
    of = {name: write.argument(name) for name in names}
    per_group = i64("add", of["last_k"], of["block"])
    final_column = i64("sub", of["tile_columns"], 1)
    round_up = i64("sub", of["tap_row_step"], 1)
    x_first = in_x("%x", of["x_first"])
    first_other = other_base(write) if with_other else ""

    def tap_rows(input_rows: str) -> str:
        """The number of filter rows that begin in a number of input rows."""
        count = i64("udiv", i64("add", i64("smax", input_rows, 0), round_up), of["tap_row_step"])
        return i64("umin", count, of["filter_rows"])

    write.do("%some = icmp ult i64 %begin, %end")
    write.do("br i1 %some, label %task, label %done")
    write.label("task")
    write.do("%t = phi i64 [ %begin, %entry ], [ %tn, %task_next ]")
    chunk, rest = i64("urem", "%t", of["chunks"]), i64("udiv", "%t", of["chunks"])
    k_task, rest = i64("urem", rest, of["k_tasks"]), i64("udiv", rest, of["k_tasks"])
    group, image = i64("urem", rest, of["groups"]), i64("udiv", rest, of["groups"])
    x = in_x(in_x(x_first, i64("mul", image, of["x_image"])), i64("mul", group, of["x_group"]))
    y = in_y(in_y("%y", i64("mul", image, of["y_image"])), i64("mul", group, of["y_group"]))
    other = in_other(in_other(first_other, i64("mul", image, of["other_image"])),
                     i64("mul", group, of["y_group"])) if with_other else ""
    first = i64("mul", chunk, of["chunk"])
    last = i64("umin", i64("add", first, of["chunk"]), of["tiles"])
    k_first = i64("mul", k_task, of["k_blocks_per_task"])
    k_last = i64("umin", i64("add", k_first, of["k_blocks_per_task"]), of["k_blocks"])
    column, row = i64("urem", first, of["tile_columns"]), i64("udiv", first, of["tile_columns"])
    if prefetches:
        visits = i64("sub", last, first)
        share = i64("udiv", i64("mul", of["weights_block"], 4), visits)
        shift = i64("sub", 63, write.let(f"call i64 @llvm.ctlz.i64(i64 {visits}, i1 false)"))
    panels = i64("mul", group, of["k_blocks"])
    bias = write.at("%bias", i64("mul", group, per_group))
    write.do("br label %block")
    write.label("block")
    write.do(f"%k = phi i64 [ {k_first}, %task ], [ %kn, %block_next ]")
    k = i64("umin", i64("mul", "%k", of["block"]), of["last_k"])
    weights = write.at("%w", i64("mul", i64("add", panels, "%k"), of["weights_block"]))
    next_panel = write.at(weights, of["weights_block"]) if prefetches else ""
    k_bias = write.at(bias, k)
    k_y = in_y(y, i64("mul", k, of["y_channel"]))
    k_other = in_other(other, i64("mul", k, of["y_channel"])) if with_other else ""
    write.do("br label %each")
    write.label("each")
    write.do(f"%i = phi i64 [ {first}, %block ], [ %in, %each ]")
    write.do(f"%column = phi i64 [ {column}, %block ], [ %columnn, %each ]")
    write.do(f"%row = phi i64 [ {row}, %block ], [ %rn, %each ]")
    write.do(f"%at_end = icmp eq i64 %column, {final_column}")
    write.do(f"%limit = select i1 %at_end, i64 {of['last_column']}, i64 {of['last_inner']}")
    write.do("%between = select i1 %at_end, i64 2, i64 1")
    write.do("%at_begin = icmp eq i64 %column, 0")
    write.do("%place = select i1 %at_begin, i64 0, i64 %between")
    left = i64("umin", i64("mul", "%column", of["tile_w"]), "%limit")
    top = i64("umin", i64("mul", "%row", of["tile_h"]), of["last_row"])
    below_above = i64("sub", of["above"], i64("mul", top, of["row_step"]))
    row_begin = tap_rows(below_above)
    row_end = tap_rows(i64("add", below_above, of["inside_rows"]))
    from_ = in_x(in_x(x, i64("mul", top, of["x_row"])), i64("mul", left, of["x_column"]))
    to = in_y(in_y(k_y, i64("mul", top, of["y_row"])), i64("mul", left, of["y_pixel"]))
    further = ""
    if with_other:
        before = i64("add", i64("umin", i64("mul", i64("sub", "%column", 1), of["tile_w"]), of["last_inner"]),
                     of["tile_w"])  # the end of the tile before
        before = write.let(f"select i1 %at_begin, i64 0, i64 {before}")
        from_other = in_other(in_other(k_other, i64("mul", top, of["other_row"])),
                              i64("mul", left, of["other_pixel"]))
        skips = (i64("sub", i64("mul", "%row", of["tile_h"]), top), i64("sub", before, left),
                 i64("sub", i64("mul", "%k", of["block"]), k))
        further = f", ptr {from_other}" + "".join(f", i64 {skip}" for skip in skips)
    if prefetches:
        part = write.at(next_panel, i64("mul", share, i64("sub", "%i", first)), "i8")
        further += f", ptr {part}, i64 {shift}"
    write.do(f"call void %tile(ptr {from_}, ptr {weights}, ptr {k_bias}, ptr {to}, ptr %a, i64 {row_begin}, "
             f"i64 {row_end}, i64 %place{further})")
    write.do(f"%wrap = icmp eq i64 %column, {final_column}")
    right, below = i64("add", "%column", 1), i64("add", "%row", 1)
    write.do(f"%columnn = select i1 %wrap, i64 0, i64 {right}")
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
    return "\n".join(["declare i64 @llvm.umin.i64(i64, i64)", "declare i64 @llvm.smax.i64(i64, i64)",
                      *(["declare i64 @llvm.ctlz.i64(i64, i1)"] if prefetches else []),
                      write.function(f"void @seqtune_tiles({_RUN})")])


def _move(name: str, kind: str, load: str, load_wide: str, value: str) -> str:
    """Define `name(to, from, count)`: copies eight elements at a time, the last eight overlapping; fewer one by one."""
    align = 4 if kind == "float" else 2
    return _MOVE.substitute(name=name, kind=kind, load=load, load_wide=load_wide, value=value, align=align)


def _pad(pitched: bool, kind: str) -> str:
    """Fill the padded input. A task is one of its rows: zeros alone, or zeros, a copied row, zeros.

    With `pitched`, the pixels of the row are copied one by one.
    """
    write = Writer(FUSED_FIELDS)
    at = partial(write.at, kind=kind)
    names = ("pad_rows", "pad_top", "pad_left", "pad_right", "source_rows", "source_row", "padded_row",
             *(("source_pixels", "source_pixel", "pixel") if pitched else ()))
    of = {name: write.argument(name) for name in names}
    write.do("br label %check")
    write.label("check")
    write.do("%t = phi i64 [ %begin, %entry ], [ %tn, %next ]")
    write.do("%some = icmp ult i64 %t, %end")
    write.do("br i1 %some, label %row, label %done")
    write.label("row")
    to = at("%workspace", write.mul("%t", of["padded_row"]))
    plane = write.i64("udiv", "%t", of["pad_rows"])
    padded_line = write.i64("urem", "%t", of["pad_rows"])
    line = write.i64("sub", padded_line, of["pad_top"])
    write.do(f"%inside = icmp ult i64 {line}, {of['source_rows']}")
    write.do("br i1 %inside, label %copy, label %zero")
    write.label("copy")
    source = write.add(write.mul(plane, of["source_rows"]), line)
    from_ = at("%x", write.mul(source, of["source_row"]))
    write.do(f"call void @zeros(ptr {to}, ptr null, i64 {of['pad_left']})")
    middle = at(to, of["pad_left"])
    if pitched:
        floats = write.mul(of["source_pixels"], of["pixel"])
        with write.loop(0, of["source_pixels"]) as pixel:
            copied, source_pixel = write.mul(pixel, of["pixel"]), write.mul(pixel, of["source_pixel"])
            write.do(f"call void @floats(ptr {at(middle, copied)}, ptr {at(from_, source_pixel)}, "
                     f"i64 {of['pixel']})")
    else:
        floats = of["source_row"]
        write.do(f"call void @floats(ptr {middle}, ptr {from_}, i64 {floats})")
    write.do(f"call void @zeros(ptr {at(middle, floats)}, ptr null, i64 {of['pad_right']})")
    write.do("br label %next")
    write.label("zero")
    write.do(f"call void @zeros(ptr {to}, ptr null, i64 {of['padded_row']})")
    write.do("br label %next")
    write.label("next")
    write.do("%tn = add i64 %t, 1")
    write.do("br label %check")
    write.label("done")
    copy = (f"%p{{0}} = getelementptr {kind}, ptr %from, i64 %{{1}}\n"
            f"  %v{{0}} = load {{2}}, ptr %p{{0}}, align {4 if kind == 'float' else 2}")
    none = "%v{0} = select i1 true, {2} zeroinitializer, {2} zeroinitializer"
    return "\n".join([
        _move("floats", kind, copy.format(1, "j", kind), copy.format(8, "i", f"<8 x {kind}>"), "%v"),
        _move("zeros", kind, none.format(1, "", kind).replace("zeroinitializer", "0.0" if kind == "float" else "0"),
              none.format(8, "", f"<8 x {kind}>"), "%v"),
        write.function(f"void @seqtune_pad({_PADS})")])


@lru_cache(maxsize=16)
def loops(with_other: bool, prefetches: bool, pitched: bool, x_kind: str, y_kind: str, other_kind: str) -> str:
    """The text of the module. Its tile has the `signature`; with `pitched`, the pixels of a copied row of x lie apart.

    The kinds are the types in memory of elements of x, y and the other operand (`Element.kind`).
    """
    return "\n".join([_driver(with_other, prefetches, x_kind, y_kind, other_kind), _pad(pitched, x_kind)])
