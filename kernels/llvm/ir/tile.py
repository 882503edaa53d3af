"""The register-blocked tile that llvm.direct and llvm.gemm share, as LLVM IR text.

A tile is `tile_h` x `tile_w` output pixels by `vectors` vectors of `vector` output channels, kept in registers during
the reduction loop (input channels x filter taps). A matrix product is the same tile: its pixels are rows of A.
With x in bf16, two neighbouring channels count as one: a pair is broadcast like a number of fp32, the packed weights
hold the matching pairs, and one instruction adds both products to a sum in fp32. With x in int8, four neighbouring
channels are one word, and sums are whole numbers of 32 bits, which are stored as they are (`WordProducts`).

Of the problem's sizes the text holds only the filter's width and the step between pixels; the rest are launch
arguments, so one compiled tile works for every problem that shares those two.

With `borders` the input is not padded: the caller bounds the filter's rows, and at either end of an output row the
taps that fall on padding are left out of the text.

The last tile of a row, of a column and of the channels overlaps its predecessor: whole sums are stored, so storing one
twice does no harm. Only `llvm.fmuladd` is used: it is a fused multiply-add where the target has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby

from ...launches.implementation import KernelSource
from ..text.elements import FP32, Element, WordProducts
from ..text.formula import Formula
from ..text.quads import FLOATS, at_once, declare_quads, multiply_quads
from ..text.writer import Writer
from .epilogue import Store, declare_epilogue
from .task_loops import ENTRIES, FUSED_FIELDS, loops, signature
from .tiling import Borders, Taps

# Work of one pass of the innermost loop; c<n> is n input channels of one filter tap.
BODIES = ("row", "filter", "c1", "c2", "c4", "c8")
_LINE = 16  # floats of a cache line


@dataclass(frozen=True, slots=True)
class Tile:
    """The numbers that determine a tile's source text."""

    vector: int
    vectors: int
    tile_h: int
    tile_w: int
    body: str
    r: int
    s: int
    pixel_step: int  # elements between neighbouring output pixels' inputs
    channels_last: bool  # the output's channels are contiguous in memory, else its pixels are
    bias: bool
    formula: Formula  # epilogue of the sum with the bias, and of a second operand in the output's layout
    borders: Borders | None = None
    pitched: bool = False  # the pixels of a row of x that is copied are not contiguous
    x: Element = FP32  # bf16, int8: sums of products of pairs or words of channels
    y: Element = FP32
    other: Element = FP32
    prefetches: bool = False  # each tile prefetches its share of the next panel (`Tiling.visits`)
    quads: bool = False  # SVE: 4 divides the channels, which are neighbours in memory, so that a quad can be read

    def source(self) -> KernelSource:
        """Entries `direct` (x as given), `padded` (x in the workspace) and `pad` (fills that)."""
        rows = self.r if self.body == "filter" else 1 if self.r == 1 and self.borders is None else 2
        return _source(replace(self, r=rows))

    @property
    def lanes(self) -> int:
        """The number of output channels of a tile."""
        return self.vector * self.vectors

    @property
    def in_pairs(self) -> bool:
        """Whether an instruction multiplies pairs of bf16 channels, which are then the channels of this module."""
        return self.x.dtype == "bf16"

    @property
    def in_quads(self) -> bool:
        """Whether the innermost loop's body reads four channels of a pixel at once, even if `body` has fewer."""
        return self.quads and self.body.startswith("c") and at_once(self.tile_h * self.tile_w, self.vectors) > 0

    @property
    def each(self) -> int:
        """The number of channels of one tap in the innermost loop's body."""
        channels = int(self.body[1:]) if self.body.startswith("c") else 1
        return max(channels, FLOATS) if self.in_quads else channels

    def taps_by_position(self) -> tuple[Taps, Taps, Taps]:
        """Taps of a tile at the left end of a row, inside it, and at its right end."""
        if self.borders is None:
            taps = (tuple(range(self.tile_h * self.tile_w)),) * self.s
            return taps, taps, taps
        whole = self.borders.whole
        left, inside, right = (self.borders.taps(self.s, self.tile_w, *ends)
                               for ends in ((True, whole), (whole, whole), (whole, True)))
        return left, inside, right


@lru_cache(maxsize=512)  # configurations that differ in launch arguments alone are often consecutive
def _source(tile: Tile) -> KernelSource:
    return KernelSource("\n".join([_tile(tile), ENTRIES]), (
        loops(tile.formula.operands == 2, tile.prefetches, tile.pitched, tile.x.kind, tile.y.kind, tile.other.kind),))


def _tile(tile: Tile) -> str:
    write, with_other = Writer(FUSED_FIELDS), tile.formula.operands == 2
    store = Store(tile.vector, tile.vectors, tile.tile_h, tile.tile_w, tile.channels_last, tile.bias, tile.formula,
                  tile.y, tile.other)
    grid, kind, pixels = store.grid(write), store.kind, tile.tile_h * tile.tile_w
    words = WordProducts(write, tile.vector, tile.x.word_method) if tile.x.word_method else None
    step = {name: write.argument(name) for name in (
        "x_row", "x_tap_row", "x_tap_column", "x_channel", "channels", "w_channel", "w_tap", "y_row", "y_pixel",
        "y_channel", *(("other_row", "other_pixel") if with_other else ()))}
    if tile.prefetches:
        write.do("%panel = ptrtoint ptr %w to i64")
    if words is None:
        sums = _Reduction(write, tile, kind, step).everywhere(["zeroinitializer"] * pixels * tile.vectors)
    else:
        first, w = words.first_sums("%w", tile.vectors)
        sums = _Reduction(write, tile, words.kind, step, words).everywhere(first * pixels, w)
        sums = [write.let(f"bitcast {words.kind} {value} to {kind}") for value in sums]
    store.write(write, sums, step, grid)
    return "\n".join([
        *([words.declaration] if words is not None else []),
        *([f"declare {kind} {_dot(tile.vector)}({kind}, {_pairs(tile.vector)}, {_pairs(tile.vector)})"]
          if tile.in_pairs else []),
        f"declare {kind} @llvm.fmuladd.v{tile.vector}f32({kind}, {kind}, {kind})",
        declare_epilogue(tile.formula, tile.vector, y=tile.y),
        *(["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] if tile.prefetches else []),
        *([declare_quads(tile.vector)] if tile.in_quads else []),
        write.function(f"internal void @tile({signature(with_other, tile.prefetches)}) noinline")])


@dataclass(frozen=True, slots=True)
class _Reduction:
    """The loops over taps and channels. Sums are passed in and returned by name."""

    write: Writer
    tile: Tile
    kind: str  # type of sums and of vectors of weights
    step: dict[str, str]
    words: WordProducts | None = None

    def everywhere(self, sums: list[str], w: str = "%w") -> list[str]:
        """The reduction for any position of the tile in its row, over the filter rows that the caller allows."""
        write, borders = self.write, self.tile.borders
        if borders is None:
            return self.of(self.tile.taps_by_position()[0], "%x", w, "%row_end", sums)
        nonempty = write.let("icmp ult i64 %row_begin, %row_end")
        ends = [(write.block, sums)]
        write.do(f"br i1 {nonempty}, label %rows, label %all")
        write.label("rows")
        rows = write.i64("sub", "%row_end", "%row_begin")
        x = self._x("%x", write.mul("%row_begin", self.step["x_tap_row"]))
        tap = self.step["w_tap"] if self.tile.body != "row" else str(self.tile.lanes)
        above = write.mul(tap, self.tile.s)
        w = write.at("%w", write.mul("%row_begin", above))
        positions = self.tile.taps_by_position()
        different = list(dict.fromkeys(positions))
        cases = " ".join(f"i64 {position}, label %place{different.index(taps)}"
                         for position, taps in enumerate(positions))
        write.do(f"switch i64 %place, label %place{different.index(positions[1])} [ {cases} ]")
        for number, taps in enumerate(different):
            write.label(f"place{number}")
            ends.append((f"place{number}", self.of(taps, x, w, rows, sums)))
            ends[-1] = (write.block, ends[-1][1])
            write.do("br label %all")
        write.label("all")
        return [write.let(f"phi {self.kind} " + ", ".join(f"[ {end[index]}, %{block} ]" for block, end in ends))
                for index in range(len(sums))]

    def of(self, taps: Taps, x: str, w: str, rows: str, sums: list[str]) -> list[str]:
        """The reduction over the given taps of `rows` rows."""
        if self.tile.body == "row":
            return self._channels_outside(taps, x, w, rows, sums)
        if self.tile.body == "filter":
            return self._filter_inside(taps, x, w, sums)
        return self._taps_outside(taps, x, w, rows, sums)

    def _filter_inside(self, taps: Taps, x: str, w: str, sums: list[str]) -> list[str]:
        def channel(x: str, w: str, sums: list[str]) -> tuple[str, str, list[str]]:
            row = x
            for i in range(self.tile.r):
                row = self._x(row, self.step["x_tap_row"]) if i else row
                sums = self._filter_row(taps, row, self.write.at(w, i * self.tile.s * self.tile.lanes), sums)
            return (self._x(x, self.step["x_channel"]),
                    self.write.at(w, self.tile.r * self.tile.s * self.tile.lanes), sums)

        return self._loop(self.step["channels"], x, w, sums, channel)[2]

    def _channels_outside(self, taps: Taps, x: str, w: str, rows: str, sums: list[str]) -> list[str]:
        def row(x: str, w: str, sums: list[str]) -> tuple[str, str, list[str]]:
            sums = self._filter_row(taps, x, w, sums)
            return (self._x(x, self.step["x_tap_row"]),
                    self.write.at(w, self.tile.s * self.tile.lanes), sums)

        def channel(x: str, w: str, sums: list[str]) -> tuple[str, str, list[str]]:
            sums = self._loop(rows, x, w, sums, row)[2]
            return self._x(x, self.step["x_channel"]), self.write.at(w, self.step["w_channel"]), sums

        return self._loop(self.step["channels"], x, w, sums, channel)[2]

    def _taps_outside(self, taps: Taps, x: str, w: str, rows: str, sums: list[str]) -> list[str]:
        write, step, tile = self.write, self.step, self.tile
        runs = [(pixels, len(list(run))) for pixels, run in groupby(taps)]  # neighbouring columns of the same pixels
        passes = step["channels"] if tile.each == 1 else write.i64("udiv", step["channels"], tile.each)
        advance = step["x_channel"] if tile.each == 1 else write.mul(step["x_channel"], tile.each)

        def row(x: str, w: str, sums: list[str]) -> tuple[str, str, list[str]]:
            column = x
            for index, (pixels, length) in enumerate(runs):
                if not pixels:
                    w = write.at(w, write.mul(step["w_tap"], length))
                else:
                    chosen = [sum_ for pixel in pixels for sum_ in self._of(pixel, sums)]
                    if length > 1:
                        _, w, chosen = self._loop(str(length), column, w, chosen, tap(pixels))
                    else:
                        _, w, chosen = tap(pixels)(column, w, chosen)
                    sums = self._replaced(sums, pixels, chosen)
                if index < len(runs) - 1:
                    column = self._x(column, write.mul(step["x_tap_column"], length))
            return self._x(x, step["x_tap_row"]), w, sums

        def tap(pixels: tuple[int, ...]) -> Callable[[str, str, list[str]], tuple[str, str, list[str]]]:
            def channels(x: str, w: str, sums: list[str]) -> tuple[str, str, list[str]]:
                if tile.in_quads:
                    for channel in range(0, tile.each, FLOATS):
                        sums = self._quads(pixels, write.at(x, channel), write.at(w, channel * tile.lanes), sums)
                    return self._x(x, advance), write.at(w, tile.each * tile.lanes), sums
                pointer = x
                for channel in range(tile.each):
                    pointer = self._x(pointer, step["x_channel"]) if channel else pointer
                    sums = self._multiply(pixels, pointer, write.at(w, channel * tile.lanes), sums)
                return self._x(x, advance), write.at(w, tile.each * tile.lanes), sums

            def column(x: str, w: str, sums: list[str]) -> tuple[str, str, list[str]]:
                _, w, sums = self._loop(passes, x, w, sums, channels)
                return self._x(x, step["x_tap_column"]), w, sums

            return column

        return (row(x, w, sums) if tile.r == 1 else self._loop(rows, x, w, sums, row))[2]

    def _filter_row(self, taps: Taps, x: str, w: str, sums: list[str]) -> list[str]:
        for column, pixels in enumerate(taps):
            x = self._x(x, self.step["x_tap_column"]) if column else x
            if pixels:
                chosen = [sum_ for pixel in pixels for sum_ in self._of(pixel, sums)]
                chosen = self._multiply(pixels, x, self.write.at(w, column * self.tile.lanes), chosen)
                sums = self._replaced(sums, pixels, chosen)
        return sums

    def _of(self, pixel: int, sums: list[str]) -> list[str]:
        return sums[pixel * self.tile.vectors:(pixel + 1) * self.tile.vectors]

    def _replaced(self, sums: list[str], pixels: Sequence[int], chosen: list[str]) -> list[str]:
        sums = list(sums)
        for index, pixel in enumerate(pixels):
            sums[pixel * self.tile.vectors:(pixel + 1) * self.tile.vectors] = self._of(index, chosen)
        return sums

    def _multiply(self, pixels: Sequence[int], x: str, w: str, sums: list[str]) -> list[str]:
        """Add one tap of one channel to the sums of `pixels`: their inputs times every vector of weights."""
        write, tile, kind = self.write, self.tile, self.kind
        loaded = self._weights(w)
        weights_of = [self.words.factor(vector) for vector in loaded] if self.words is not None else []
        new_sums: list[str] = []
        for pointer in self._inputs(pixels, x):
            if self.words is not None:
                factor = self.words.factor(self.words.broadcast(pointer))
                new_sums += [self.words.added(sums[len(new_sums) + vector], factor, weights)
                             for vector, weights in enumerate(weights_of)]
                continue
            value = write.let(f"load float, ptr {pointer}, align {tile.x.bytes}")
            first = write.let(f"insertelement {kind} poison, float {value}, i32 0")
            splat = write.let(f"shufflevector {kind} {first}, {kind} poison, <{tile.vector} x i32> zeroinitializer")
            new_sums += [self._fma(splat, weights, sums[len(new_sums) + vector])
                         for vector, weights in enumerate(loaded)]
        return new_sums

    def _quads(self, pixels: Sequence[int], x: str, w: str, sums: list[str]) -> list[str]:
        """Add one tap of four neighbouring channels to the sums of `pixels`."""
        return multiply_quads(self.write, self.tile.vector, list(self._inputs(pixels, x)),
                              lambda channel: self._weights(self.write.at(w, channel * self.tile.lanes)), sums)

    def _weights(self, w: str) -> list[str]:
        """The vectors of weights of one channel."""
        tile = self.tile
        loaded = [self.write.load(self.kind, self.write.at(w, vector * tile.vector)) for vector in range(tile.vectors)]
        if tile.prefetches:
            self._prefetch(w)
        return loaded

    def _inputs(self, pixels: Sequence[int], x: str) -> Iterator[str]:
        """Pointers to the inputs of `pixels`."""
        above, row = 0, x
        for i, j in (divmod(pixel, self.tile.tile_w) for pixel in pixels):
            while above < i:
                row, above = self._x(row, self.step["x_row"]), above + 1
            yield self._x(row, j * self.tile.pixel_step)

    def _prefetch(self, w: str) -> None:
        """Prefetch the next panel, as far into the tile's share of it as `w` is in this panel."""
        write = self.write
        passed = write.i64("sub", write.let(f"ptrtoint ptr {w} to i64"), "%panel")
        ahead = write.at("%ahead", write.i64("lshr", passed, "%shift"), "i8")
        for line in range(0, self.tile.lanes, _LINE):
            write.do(f"call void @llvm.prefetch.p0(ptr {write.at(ahead, line)}, i32 0, i32 3, i32 1)")

    def _fma(self, x: str, weights: str, sums: str) -> str:
        """The sums with a channel of x times a vector of weights added, or with a pair of channels, both products."""
        write, lanes = self.write, self.tile.vector
        if not self.tile.in_pairs:
            return write.fma(lanes, x, weights, sums)
        pairs = [write.let(f"bitcast {self.kind} {value} to {_pairs(lanes)}") for value in (weights, x)]
        return write.let(f"call {self.kind} {_dot(lanes)}({self.kind} {sums}, "
                         + ", ".join(f"{_pairs(lanes)} {pair}" for pair in pairs) + ")")

    def _x(self, base: str, offset: str | int) -> str:
        """A pointer into x moved by elements."""
        return self.tile.x.at(self.write, base, offset)

    def _loop(self, count: str, x: str, w: str, sums: list[str],
              body: Callable[[str, str, list[str]], tuple[str, str, list[str]]]) -> tuple[str, str, list[str]]:
        """Run `body` `count` times, at least once; its result is the input of the next pass."""
        x, w, *sums = self.write.repeat(count, [("ptr", x), ("ptr", w), *((self.kind, value) for value in sums)],
                                        lambda values: _flat(body(values[0], values[1], values[2:])))
        return x, w, sums


def _pairs(lanes: int) -> str:
    """The type of pairs of bf16 numbers in the lanes of fp32 numbers."""
    return f"<{2 * lanes} x bfloat>"


def _dot(lanes: int) -> str:
    """The instruction that adds the products of pairs of bf16 numbers to sums in fp32 (VDPBF16PS)."""
    return f"@llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"


def _flat(state: tuple[str, str, list[str]]) -> list[str]:
    return [state[0], state[1], *state[2]]
