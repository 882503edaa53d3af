"""Epilogue of a tile as LLVM IR: bias, formula and stores of its sums.

Tiles overlap: the last one of a row, of a column and of the channels begins inside its predecessor. Whole sums are
stored, so storing a sum twice does no harm, unless the formula reads a tensor that y overwrites. With a second operand,
the tile therefore leaves out what its predecessors store: `%skip_rows` rows and `%skip_columns` columns of pixels, and
`%overlap` channels.

A short formula of the sum alone is computed in registers, any other one in a loop over the sums in memory (`Grid`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..text.elements import FP32, Element
from ..text.formula import Formula, write
from ..text.vectors import declare_math
from ..text.writer import Writer

MOST_INSTRUCTIONS = 12  # instructions of a formula that is computed in registers: hard-swish has 7, SiLU some 40
# Further parameters of functions that store sums with a second operand; %other points to that of the first sum.
OTHER = ", ptr %other, i64 %skip_rows, i64 %skip_columns, i64 %overlap"
# Names of the launch arguments of the second operand: steps in its elements, and its address, which is the last of all.
OTHER_FIELDS = ("other_image", "other_row", "other_pixel", "other")


def declare_epilogue(formula: Formula, *lanes: int, y: Element = FP32) -> str:
    """Declarations of the intrinsics of an epilogue beside those of `writer.declarations`; empty without a formula."""
    masked = [y.declare_stores(*lanes)] if formula.operands == 2 else []
    return "\n".join([*([declare_math(*lanes)] if formula.lines else []), *masked])


def other_base(writer: Writer) -> str:
    """The pointer to the second operand's tensor."""
    return writer.let(f"inttoptr i64 {writer.argument('other')} to ptr")


def finished(writer: Writer, lanes: int, formula: Formula, *values: str) -> str:
    """The formula of a vector of sums and, where it has a second operand, a vector of that."""
    return write(writer, lanes, formula, values)


@lru_cache(maxsize=256)
def in_registers(formula: Formula) -> bool:
    """Whether sums are finished in their registers; else in a loop over a copy of the sums in memory.

    A tile's sums leave no registers for the temporaries and constants of a formula with many instructions, and text
    with the formula for every sum takes long to compile. In the loop all registers are free.
    """
    writer = Writer()
    write(writer, 1, formula, ["%x"] * formula.operands)
    return formula.operands == 1 and len(writer.lines) <= MOST_INSTRUCTIONS


@dataclass(frozen=True, slots=True)
class Grid:
    """The sums of rows x columns pixels with `vectors` vectors each, finished in a loop over a copy in memory."""

    writer: Writer
    formula: Formula
    rows: int
    columns: int
    vectors: int
    lanes: int
    memory: str
    y: Element
    other: Element

    @classmethod
    def begin(cls, writer: Writer, formula: Formula, rows: int, columns: int, vectors: int, lanes: int,
              y: Element = FP32, other: Element = FP32) -> Grid | None:
        """Reserve the memory of the copy, at the beginning of a function; None where no copy is needed.

        `y` and `other` are the elements of the output and of the second operand.
        """
        if in_registers(formula):
            return None
        memory = writer.let(f"alloca [{rows * columns * vectors * lanes} x float], align 64")
        return cls(writer, formula, rows, columns, vectors, lanes, memory, y, other)

    @property
    def with_other(self) -> bool:
        """Whether the formula has a second operand."""
        return self.formula.operands == 2

    def store(self, sums: Iterable[str], to: str, step: Mapping[str, str], other: str, overlap: str,
              skip_rows: str | int = 0) -> None:
        """Finish the sums and store them to `to`; `other` points to the second operand of the first sum.

        `step` holds y_row, y_pixel and, with a second operand, other_row and other_pixel.
        """
        writer, kind = self.writer, f"<{self.lanes} x float>"
        for index, value in enumerate(sums):
            writer.store(kind, value, writer.at(self.memory, index * self.lanes))
        first_row, first_column = ("%skip_rows", "%skip_columns") if self.with_other else (skip_rows, 0)
        with writer.loop(first_row, self.rows) as row, writer.loop(first_column, self.columns) as column:
            pixel = writer.add(writer.mul(row, self.columns), column)
            sum_ = writer.at(self.memory, writer.mul(pixel, self.vectors * self.lanes))
            to = self.y.at(writer, self.y.at(writer, to, writer.mul(row, step["y_row"])),
                           writer.mul(column, step["y_pixel"]))
            if self.with_other:
                other = self.other.at(writer, self.other.at(writer, other, writer.mul(row, step["other_row"])),
                                      writer.mul(column, step["other_pixel"]))
            if self.vectors == 1:
                self._vector(sum_, other, to, overlap)
            else:
                with writer.loop(0, self.vectors * self.lanes, self.lanes) as lane:
                    self._vector(writer.at(sum_, lane), self.other.at(writer, other, lane) if self.with_other else "",
                                 self.y.at(writer, to, lane),
                                 writer.i64("sub", overlap, lane) if self.with_other else "")

    def _vector(self, sum_: str, other: str, to: str, overlap: str) -> None:
        sources = ((FP32, sum_), (self.other, other))[:1 + self.with_other]
        values = [element.load(self.writer, self.lanes, source) for element, source in sources]
        result = finished(self.writer, self.lanes, self.formula, *values)
        if self.with_other:
            store_rest(self.writer, self.lanes, result, to, overlap, self.y)
        else:
            self.y.store(self.writer, self.lanes, result, to)


def store_rest(writer: Writer, lanes: int, value: str, to: str, overlap: str, y: Element = FP32) -> None:
    """Store a vector except for its first `overlap` elements, which may be fewer than none or more than there are."""
    with writer.when(writer.let(f"icmp sle i64 {overlap}, 0")):
        y.store(writer, lanes, value, to)
    with writer.when(writer.let(f"icmp sgt i64 {overlap}, 0")):
        order = ", ".join(f"i64 {lane}" for lane in range(lanes))
        first = writer.let(f"insertelement <{lanes} x i64> poison, i64 {overlap}, i32 0")
        limit = writer.let(f"shufflevector <{lanes} x i64> {first}, <{lanes} x i64> poison, "
                           f"<{lanes} x i32> zeroinitializer")
        mask = writer.let(f"icmp sle <{lanes} x i64> {limit}, <{order}>")
        y.store_masked(writer, lanes, value, to, mask)


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
    y: Element = FP32
    other: Element = FP32

    @property
    def kind(self) -> str:
        """A vector's type."""
        return f"<{self.vector} x float>"

    def grid(self, write: Writer) -> Grid | None:
        """The loop that finishes the sums, at the beginning of a function; None where registers do."""
        return Grid.begin(write, self.formula, self.tile_h, self.tile_w, self.vectors, self.vector, self.y,
                          self.other) if self.channels_last else None

    def write(self, write: Writer, sums: Sequence[str], step: Mapping[str, str], grid: Grid | None) -> None:
        """Bias, formula and stores to %y; `step` holds y_row, y_pixel, y_channel and, if used, other_row, other_pixel.
        """
        biased = self._with_bias(write, sums)
        if grid is not None:
            grid.store(biased, "%y", step, "%other", "%overlap")
            return
        sums = [finished(write, self.vector, self.formula, value) for value in biased]
        row = "%y"
        for i in range(self.tile_h):
            row = self.y.at(write, row, step["y_row"]) if i else row
            row_sums = sums[i * self.tile_w * self.vectors:(i + 1) * self.tile_w * self.vectors]
            if self.channels_last:
                self._pixels(write, row, row_sums, step["y_pixel"])
            else:
                self._channels(write, row, row_sums, step["y_channel"])

    def _with_bias(self, write: Writer, sums: Sequence[str]) -> Iterator[str]:
        """The sums in order, each with its bias added when it is asked for."""
        biases = [write.load(self.kind, write.at("%bias", vector * self.vector))
                  for vector in range(self.vectors)] if self.bias else []
        for index, value in enumerate(sums):
            yield write.let(f"fadd {self.kind} {value}, {biases[index % self.vectors]}") if self.bias else value

    def _pixels(self, write: Writer, pixel: str, sums: Sequence[str], y_pixel: str) -> None:
        for j in range(self.tile_w):
            pixel = self.y.at(write, pixel, y_pixel) if j else pixel
            for vector in range(self.vectors):
                self.y.store(write, self.vector, sums[j * self.vectors + vector],
                             self.y.at(write, pixel, vector * self.vector))

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
