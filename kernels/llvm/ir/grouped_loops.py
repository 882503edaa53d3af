"""The loops around a tile of a grouped convolution, over tasks, tiles and blocks of channels, as LLVM IR text.

A task is (image, chunk of blocks, row of tiles), the latter innermost. A block is the output channels of a tile. Where
a vector holds several groups, the blocks divide all channels; else those of each group.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..text.writer import ENTRY, Writer
from .epilogue import OTHER_FIELDS, other_base

# Launch arguments in order, each an i64; steps are in floats. A span is the channels that `span_blocks` blocks divide.
FIELDS = (
    "chunks", "chunk", "blocks", "span", "span_blocks", "block", "weights_block", "tile_rows", "tile_columns",
    "last_row", "last_column", "height", "width", "pad_h", "pad_w", "x_image", "x_row", "x_pixel", "y_image", "y_row",
    "y_pixel")
FUSED_FIELDS = (*FIELDS, *OTHER_FIELDS)


@dataclass(frozen=True, slots=True)
class GroupedLoops:
    """The entry `grouped`, which calls `@tile`."""

    shuffled: bool
    tile_w: int
    tile_h: int
    stride: tuple[int, int]
    with_other: bool
    fused: bool

    def text(self) -> str:
        """The text of the entry."""
        write = Writer(FUSED_FIELDS)
        of = {name: write.argument(name) for name in (FUSED_FIELDS[:-1] if self.with_other else FIELDS)}
        other = other_base(write) if self.with_other else ""
        with write.loop("%begin", "%end") as task:
            row, rest = write.i64("urem", task, of["tile_rows"]), write.i64("udiv", task, of["tile_rows"])
            chunk, image = write.i64("urem", rest, of["chunks"]), write.i64("udiv", rest, of["chunks"])
            first = write.mul(chunk, of["chunk"])
            last = write.i64("umin", write.add(first, of["chunk"]), of["blocks"])
            top = write.i64("umin", write.mul(row, self.tile_h), of["last_row"])
            above = write.i64("sub", write.mul(top, self.stride[0]), of["pad_h"])
            low, high = write.i64("sub", 0, above), write.i64("sub", of["height"], above)
            x = write.at(write.at("%x", write.mul(image, of["x_image"])), write.mul(above, of["x_row"]))
            y = write.at(write.at("%y", write.mul(image, of["y_image"])), write.mul(top, of["y_row"]))
            if self.with_other:
                other = write.at(write.at(other, write.mul(image, of["other_image"])), write.mul(top, of["other_row"]))
            with write.loop(0, of["tile_columns"]) as column:
                left = write.i64("umin", write.mul(column, self.tile_w), of["last_column"])
                begin = write.i64("sub", write.mul(left, self.stride[1]), of["pad_w"])
                from_ = write.at(x, write.mul(begin, of["x_pixel"]))
                to = write.at(y, write.mul(left, of["y_pixel"]))
                skips = ""
                if self.with_other:
                    from_other = write.at(other, write.mul(left, of["other_pixel"]))
                    skips = (f", i64 {write.i64('sub', write.mul(row, self.tile_h), top)}, "
                             f"i64 {write.i64('sub', write.mul(column, self.tile_w), left)}")
                with write.loop(first, last) as block:
                    span = write.mul(write.i64("udiv", block, of["span_blocks"]), of["span"])
                    unclipped = write.mul(write.i64("urem", block, of["span_blocks"]), of["block"])
                    clipped = write.i64("umin", unclipped, write.i64("sub", of["span"], of["block"]))
                    k = write.add(span, clipped)
                    further = (f", ptr {write.at(from_other, k)}{skips}, i64 {write.i64('sub', unclipped, clipped)}"
                               if self.with_other else "")
                    write.do(f"call void @tile(ptr {write.at(from_, k if self.shuffled else span)}, "
                             f"ptr {write.at('%w', write.mul(block, of['weights_block']))}, "
                             f"ptr {write.at('%bias', k)}, ptr {write.at(to, k)}, i64 {low}, i64 {high}, "
                             f"i64 {begin}, ptr %a{further})")
        return write.function(f"void @grouped({ENTRY})")
