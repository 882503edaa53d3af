"""Pooling steps: largest and mean values of windows of images, with the channels of a pixel side by side in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from seqtune.errors import KernelError
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.llvm.launch import Launch, Phase
from seqtune.kernels.llvm.text.elements import Element
from seqtune.kernels.llvm.text.vectors import Vectors, declare_math
from seqtune.kernels.llvm.text.writer import ENTRY, Writer, declarations, in_order

from . import masks
from .fold import fold
from .step_source import StepSource
from .view import View

_AXIS = ("size", "filter", "stride", "pad", "dilation", "x_step", "y_step")
_FIELDS = ("address_y", "address_x", "rows", "pixels", "channels", "block", "blocks", "x_image", "y_image", "divisor",
           *(f"{name}_{axis}" for axis in "hw" for name in _AXIS))
_GROUP = 4  # vectors of channels at a time
_UNROLLED = 9  # maximum number of taps that are written out for windows inside the image
_ENOUGH = 16  # tasks; with fewer rows, each row is split by channels

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Window:
    """The windows of a pooling, by (height, width)."""

    filter: Pair
    stride: Pair
    pad: Pair = (0, 0)
    dilation: Pair = (1, 1)

    def output_size(self, size: Pair, ceil_mode: bool = False) -> Pair:
        """The output's height and width. A window of `ceil_mode` begins inside the image or the padding before it."""
        counts = []
        for axis in range(2):
            rest = size[axis] + 2 * self.pad[axis] - self.dilation[axis] * (self.filter[axis] - 1) - 1
            count = (-(-rest // self.stride[axis]) if ceil_mode else rest // self.stride[axis]) + 1
            if ceil_mode and (count - 1) * self.stride[axis] >= size[axis] + self.pad[axis]:
                count -= 1
            counts.append(count)
        return counts[0], counts[1]


def max_pool(out: View, image: View, window: Window, lanes: int) -> StepSource:
    """The largest number of every window, (n, h, w, c) to (n, out_h, out_w, c); NaN where one is in the window.

    The views' channels are dense; their other strides are free. `out` decides on `ceil_mode`. Raises KernelError.
    """
    return _step("max", out, image, window, lanes, 1)


def average_pool(out: View, image: View, window: Window, lanes: int, count_include_pad: bool = True,
                 divisor: int | None = None) -> StepSource:
    """The mean of every window; else like `max_pool`. `divisor` replaces the number of elements. Raises KernelError."""
    kind = "divisor" if divisor else "padded mean" if count_include_pad else "mean"
    return _step(kind, out, image, window, lanes, divisor or 1)


def _step(kind: str, out: View, image: View, window: Window, lanes: int, divisor: int) -> StepSource:
    if len(image.shape) != 4 or image.shape[::3] != out.shape[::3] or out.shape[1:3] not in [
            window.output_size((image.shape[1], image.shape[2]), ceil_mode) for ceil_mode in (False, True)]:
        raise KernelError(f"pooling with {window} maps no image of shape {image.shape} to {out.shape}")
    n, rows, pixels, channels = out.shape
    if channels > 1 and (image.strides[3] != 1 or out.strides[3] != 1):
        raise KernelError(f"pooling needs the channels of a pixel side by side, not strides {image.strides}")
    blocks = max(1, min(-(-channels // (_GROUP * lanes)), -(-_ENOUGH // max(1, n * rows))))
    block = -(-channels // (blocks * lanes)) * lanes
    blocks = -(-channels // block) if channels else 1
    values = {"address_y": 0, "address_x": 0, "rows": rows, "pixels": pixels, "channels": channels, "block": block,
              "blocks": blocks, "x_image": image.strides[0], "y_image": out.strides[0], "divisor": divisor}
    for axis, name in enumerate("hw"):
        values |= {f"size_{name}": image.shape[1 + axis], f"filter_{name}": window.filter[axis],
                   f"stride_{name}": window.stride[axis], f"pad_{name}": window.pad[axis],
                   f"dilation_{name}": window.dilation[axis], f"x_step_{name}": image.strides[1 + axis],
                   f"y_step_{name}": out.strides[1 + axis]}
    small = window.filter[0] * window.filter[1] <= _UNROLLED
    source = _source(kind, window.filter if small else None, window.dilation != (1, 1), (out.element, image.element),
                     lanes)
    return StepSource(source, Launch(in_order(_FIELDS, **values), (
        Phase("pool", n * rows * blocks if out.size else 0),)), 1)


@lru_cache(maxsize=64)
def _source(kind: str, filter: Pair | None, dilated: bool, elements: tuple[Element, Element],
            lanes: int) -> KernelSource:
    return KernelSource("\n".join([
        declarations(lanes), declare_math(lanes), masks.declare_masked(lanes, elements),
        _PoolCode(kind, filter, dilated, elements, lanes).text()]))


class _PoolCode:
    """A task is a block of channels of one row of the output."""

    def __init__(self, kind: str, filter: Pair | None, dilated: bool, elements: tuple[Element, Element],
                 lanes: int) -> None:
        self._y, self._x = elements
        self._kind, self._filter, self._dilated = kind, filter, dilated
        self._write = Writer(_FIELDS)
        self._v = Vectors(self._write, lanes)
        self._of = {name: self._write.argument(name) for name in _FIELDS}

    def text(self) -> str:
        """The entry."""
        write, of = self._write, self._of
        x, y = (write.let(f"inttoptr i64 {of[f'address_{name}']} to ptr") for name in "xy")
        with write.loop("%begin", "%end") as task:
            line, block = write.i64("udiv", task, of["blocks"]), write.i64("urem", task, of["blocks"])
            image, row = write.i64("udiv", line, of["rows"]), write.i64("urem", line, of["rows"])
            channel = write.mul(block, of["block"])
            channels = write.i64("smin", of["block"], write.i64("sub", of["channels"], channel))
            x_image = self._x_at(self._x_at(x, write.mul(image, of["x_image"])), channel)
            y_image = self._y_at(self._y_at(y, write.mul(image, of["y_image"])), channel)
            y_row = self._y_at(y_image, write.mul(row, of["y_step_h"]))
            begin_h, first_h, last_h = self._range("h", row)
            x_row = self._x_at(x_image, write.mul(begin_h, of["x_step_h"]))
            with write.loop(0, of["pixels"]) as pixel:
                begin_w, first_w, last_w = self._range("w", pixel)
                start = self._x_at(x_row, write.mul(begin_w, of["x_step_w"]))
                to = self._y_at(y_row, write.mul(pixel, of["y_step_w"]))
                self._pixel(start, to, channels, (first_h, last_h), (first_w, last_w), self._divisor(
                    (begin_h, first_h, last_h), (begin_w, first_w, last_w)))
        return write.function(f"void @pool({ENTRY})")

    def _x_at(self, pointer: str, elements: str | int) -> str:
        return self._x.at(self._write, pointer, elements)

    def _y_at(self, pointer: str, elements: str | int) -> str:
        return self._y.at(self._write, pointer, elements)

    def _range(self, axis: str, index: str) -> tuple[str, str, str]:
        """The first pixel of a window, which may lie before the image, and its taps that lie inside: from, to."""
        write, of = self._write, self._of
        begin = write.i64("sub", write.mul(index, of[f"stride_{axis}"]), of[f"pad_{axis}"])
        before = write.i64("smax", write.i64("sub", "0", begin), "0")
        behind = write.i64("smax", write.i64("sub", of[f"size_{axis}"], begin), "0")
        if self._dilated:
            dilation = of[f"dilation_{axis}"]
            before, behind = (write.i64("udiv", write.add(count, write.i64("sub", dilation, 1)), dilation)
                              for count in (before, behind))
        return begin, before, write.i64("smin", of[f"filter_{axis}"], behind)

    def _divisor(self, *axes: tuple[str, str, str]) -> str | None:
        """The number by which a window's sum is divided, as a vector; None for the largest number."""
        write, of = self._write, self._of
        counts = []
        for axis, (begin, first, last) in zip("hw", axes, strict=True):
            if self._kind == "padded mean":  # a window of ceil_mode does not count what lies behind the padding
                past = write.add(of[f"size_{axis}"], of[f"pad_{axis}"])
                counts.append(write.i64("smin", of[f"filter_{axis}"], write.i64("sub", past, begin)))
            else:
                counts.append(write.i64("sub", last, first))
        if self._kind == "max":
            return None
        number = of["divisor"] if self._kind == "divisor" else write.mul(*counts)
        return write.splat(self._v.lanes, write.let(f"sitofp i64 {number} to float"))

    def _pixel(self, start: str, to: str, channels: str, high: tuple[str, str], wide: tuple[str, str],
               divisor: str | None) -> None:
        """One pixel of the output. Windows inside the image have their taps written out where these are few."""
        write, of = self._write, self._of
        if self._filter is None:
            self._channels(channels, to, divisor, lambda column, group, mask: self._taps(
                self._x_at(start, column), high, wide, group, mask))
            return
        low = write.let(f"or i64 {high[0]}, {wide[0]}")
        short = write.let(f"or i64 {write.i64('sub', of['filter_h'], high[1])}, "
                          f"{write.i64('sub', of['filter_w'], wide[1])}")
        inside = write.let(f"icmp eq i64 {write.let(f'or i64 {low}, {short}')}, 0")
        with write.when(inside):
            self._channels(channels, to, divisor, lambda column, group, mask: self._all_taps(
                self._x_at(start, column), group, mask))
        with write.when(write.let(f"xor i1 {inside}, true")):
            self._channels(channels, to, divisor, lambda column, group, mask: self._taps(
                self._x_at(start, column), high, wide, group, mask))

    def _channels(self, channels: str, to: str, divisor: str | None,
                  reduce: Callable[[str, int, str | None], Sequence[str]]) -> None:
        write, v = self._write, self._v
        turn = _GROUP * v.lanes
        turns, vectors = write.i64("and", channels, -turn), write.i64("and", channels, -v.lanes)

        def finish(column: str, group: int, mask: str | None) -> None:
            for vector, value in enumerate(reduce(column, group, mask)):
                value = v.div(value, divisor) if divisor else value
                pointer = self._y_at(to, write.add(column, vector * v.lanes))
                if mask:
                    self._y.store_masked(write, v.lanes, value, pointer, mask)
                else:
                    self._y.store(write, v.lanes, value, pointer)

        with write.loop(0, turns, turn) as column:
            finish(column, _GROUP, None)
        with write.loop(turns, vectors, v.lanes) as column:
            finish(column, 1, None)
        rest = write.i64("sub", channels, vectors)
        with write.when(write.let(f"icmp ne i64 {rest}, 0")):
            finish(vectors, 1, masks.first_lanes(v, rest))

    def _join(self, pointer: str, values: Sequence[str], mask: str | None) -> list[str]:
        write, v = self._write, self._v
        joined = []
        for vector, value in enumerate(values):
            start = self._x_at(pointer, vector * v.lanes)
            number = self._x.load_masked(write, v.lanes, start, mask) if mask else self._x.load(write, v.lanes, start)
            joined.append(v.max(number, value) if self._kind == "max" else v.add(value, number))
        return joined

    def _neutral(self, group: int) -> list[str]:
        return [self._v.constant(float("-inf")) if self._kind == "max" else "zeroinitializer"] * group

    def _tap(self, start: str, axis: str, tap: str | int) -> str:
        """A pointer moved by some taps of one axis."""
        write, of = self._write, self._of
        pixels = write.mul(tap, of[f"dilation_{axis}"]) if self._dilated else tap
        return start if tap == 0 else self._x_at(start, write.mul(pixels, of[f"x_step_{axis}"]))

    def _all_taps(self, start: str, group: int, mask: str | None) -> list[str]:
        values = self._neutral(group)
        height, width = self._filter or (0, 0)
        for i in range(height):
            row = self._tap(start, "h", i)
            for j in range(width):
                values = self._join(self._tap(row, "w", j), values, mask)
        return values

    def _taps(self, start: str, high: tuple[str, str], wide: tuple[str, str], group: int,
              mask: str | None) -> list[str]:
        kind = self._v.kind

        def row(i: str, values: list[str]) -> list[str]:
            line = self._tap(start, "h", i)
            return fold(self._write, (*wide, 1), kind, values, lambda j, inside: self._join(
                self._tap(line, "w", j), inside, mask))

        return fold(self._write, (*high, 1), kind, self._neutral(group), row)
