"""Epilogue of a tile as LLVM IR: bias, formula and stores of its sums.

Tiles overlap: the last one of a row, of a column and of the channels begins inside its predecessor. Whole sums are
stored, so storing one twice does no harm, unless the formula reads a tensor that y overwrites. With a second operand,
the tile therefore leaves out what its predecessors store: `%skip_rows` rows and `%skip_columns` columns of pixels, and
`%overlap` channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..steps.formula import Formula, write
from ..steps.vectors import declare_math
from .writer import Writer

# Further parameters of functions that store sums with a second operand; %other points to that of the first sum.
OTHER = ", ptr %other, i64 %skip_rows, i64 %skip_columns, i64 %overlap"
# Names of the launch arguments of the second operand: steps in floats, and its address, which is the last of all.
OTHER_FIELDS = ("other_image", "other_row", "other_pixel", "other")


def declare_epilogue(formula: Formula, *lanes: int) -> str:
    """Declarations of the intrinsics of an epilogue beside those of `writer.declarations`; empty without a formula."""
    masked = [f"declare void @llvm.masked.store.v{n}f32.p0(<{n} x float>, ptr, i32, <{n} x i1>)"
              for n in lanes] if formula.operands == 2 else []
    return "\n".join([*([declare_math(*lanes)] if formula.lines else []), *masked])


def other_base(writer: Writer) -> str:
    """The pointer to the second operand's tensor."""
    return writer.let(f"inttoptr i64 {writer.argument('other')} to ptr")


def finished(writer: Writer, lanes: int, formula: Formula, value: str, other: str) -> str:
    """The formula of a vector of sums; `other` points to the second operand, where there is one."""
    operands = [value] if formula.operands == 1 else [value, writer.load(f"<{lanes} x float>", other)]
    return write(writer, lanes, formula, operands)


def store_rest(writer: Writer, lanes: int, values: Sequence[str], to: str, overlap: str) -> None:
    """Store neighbouring vectors, except for their first `overlap` floats."""
    kind = f"<{lanes} x float>"
    with writer.when(writer.let(f"icmp eq i64 {overlap}, 0")):
        for index, value in enumerate(values):
            writer.store(kind, value, writer.at(to, index * lanes))
    with writer.when(writer.let(f"icmp ne i64 {overlap}, 0")):
        order = ", ".join(f"i64 {lane}" for lane in range(lanes))
        for index, value in enumerate(values):
            left_out = writer.i64("sub", overlap, index * lanes)
            first = writer.let(f"insertelement <{lanes} x i64> poison, i64 {left_out}, i32 0")
            limit = writer.let(f"shufflevector <{lanes} x i64> {first}, <{lanes} x i64> poison, "
                               f"<{lanes} x i32> zeroinitializer")
            mask = writer.let(f"icmp sle <{lanes} x i64> {limit}, <{order}>")
            writer.do(f"call void @llvm.masked.store.v{lanes}f32.p0({kind} {value}, "
                      f"ptr {writer.at(to, index * lanes)}, i32 4, <{lanes} x i1> {mask})")


def is_new(writer: Writer, row: int, column: int) -> str:
    """Whether no predecessor stores the pixel at this row and column of the tile."""
    new = [writer.let(f"icmp sle i64 %{skip}, {index}")
           for skip, index in (("skip_rows", row), ("skip_columns", column))]
    return writer.let(f"and i1 {new[0]}, {new[1]}")


@dataclass(frozen=True, slots=True)
class Store:
    """Sums are ordered [row][pixel][vector]; each is `vector` output channels of one pixel."""

    vector: int
    vectors: int
    tile_h: int
    tile_w: int
    channels_last: bool  # the output's channels are contiguous in memory, else its pixels are
    bias: bool
    formula: Formula  # a second operand only where channels are last

    @property
    def kind(self) -> str:
        """A vector's type."""
        return f"<{self.vector} x float>"

    def write(self, write: Writer, sums: Sequence[str], step: Mapping[str, str]) -> None:
        """Bias, formula and stores to %y; `step` holds y_row, y_pixel, y_channel and, if used, other_row, other_pixel.
        """
        if self.formula.operands == 2:
            self._new_pixels(write, sums, step)
            return
        sums = self._finished(write, sums)
        row = "%y"
        for i in range(self.tile_h):
            row = write.at(row, step["y_row"]) if i else row
            row_sums = sums[i * self.tile_w * self.vectors:(i + 1) * self.tile_w * self.vectors]
            if self.channels_last:
                self._pixels(write, row, row_sums, step["y_pixel"])
            else:
                self._channels(write, row, row_sums, step["y_channel"])

    def _finished(self, write: Writer, sums: Sequence[str]) -> list[str]:
        biases = [write.load(self.kind, write.at("%bias", vector * self.vector))
                  for vector in range(self.vectors)] if self.bias else []
        done = []
        for index, value in enumerate(sums):
            if self.bias:
                value = write.let(f"fadd {self.kind} {value}, {biases[index % self.vectors]}")
            done.append(finished(write, self.vector, self.formula, value, ""))
        return done

    def _new_pixels(self, write: Writer, sums: Sequence[str], step: Mapping[str, str]) -> None:
        row, other_row = "%y", "%other"
        for i in range(self.tile_h):
            row, other_row = (write.at(base, step[name]) if i else base
                              for base, name in ((row, "y_row"), (other_row, "other_row")))
            pixel, other = row, other_row
            for j in range(self.tile_w):
                pixel, other = (write.at(base, step[name]) if j else base
                                for base, name in ((pixel, "y_pixel"), (other, "other_pixel")))
                first = (i * self.tile_w + j) * self.vectors
                with write.when(is_new(write, i, j)):
                    done = []
                    for vector, value in enumerate(sums[first:first + self.vectors]):
                        offset = vector * self.vector
                        if self.bias:
                            bias = write.load(self.kind, write.at("%bias", offset))
                            value = write.let(f"fadd {self.kind} {value}, {bias}")
                        done.append(finished(write, self.vector, self.formula, value, write.at(other, offset)))
                    store_rest(write, self.vector, done, pixel, "%overlap")

    def _pixels(self, write: Writer, pixel: str, sums: Sequence[str], y_pixel: str) -> None:
        for j in range(self.tile_w):
            pixel = write.at(pixel, y_pixel) if j else pixel
            for vector in range(self.vectors):
                write.store(self.kind, sums[j * self.vectors + vector], write.at(pixel, vector * self.vector))

    def _channels(self, write: Writer, channel: str, sums: Sequence[str], y_channel: str) -> None:
        for vector in range(self.vectors):
            for index, pieces in enumerate(self._transposed(write, sums[vector::self.vectors])):
                channel = write.at(channel, y_channel) if vector or index else channel
                offset = 0
                for width, piece in pieces:
                    write.store(f"<{width} x float>", piece, write.at(channel, offset))
                    offset += width

    def _transposed(self, write: Writer, pixels: Sequence[str]) -> list[list[tuple[int, str]]]:
        """Transpose sums: for each channel, the pixels' values as (width, value) pieces.

        Interleaving the halves of [pixel][channel] log2(pixels) times gives [channel][pixel].
        """
        lanes, wide = self.vector, 1
        while wide < self.tile_w:
            wide *= 2
        vectors = [*pixels, *["poison"] * (wide - self.tile_w)]
        mask = [lane // 2 + (lanes if lane % 2 else 0) for lane in range(2 * lanes)]
        for _ in range(wide.bit_length() - 1):
            apart = []
            for low, high in zip(vectors[:wide // 2], vectors[wide // 2:], strict=True):
                if lanes == 1 or low == high == "poison":
                    apart += [low, high]
                else:
                    apart += [write.shuffle(lanes, low, high, half) for half in (mask[:lanes], mask[lanes:])]
            vectors = apart
        rows: list[list[tuple[int, str]]] = []
        for channel in range(lanes):
            pieces, begin = [], channel * wide
            end = begin + self.tile_w
            while begin < end:
                index, offset = divmod(begin, lanes)
                width = min(lanes - offset, end - begin)
                pieces.append((width, vectors[index] if width == lanes else write.shuffle(
                    lanes, vectors[index], "poison", range(offset, offset + width))))
                begin += width
            rows.append(pieces)
        return rows
