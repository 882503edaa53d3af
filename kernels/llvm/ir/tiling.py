"""Tiling: the division of a convolution or matrix product into tiles, tasks and packed panels.

The columns of a matrix product are its output channels k.

Each thread has a slice of the workspace. Tasks are split evenly over the threads (`seqtune.kernels.llvm.launch`), so
the first task of a thread's share identifies the thread: the least i with floor(tasks * i / threads) = begin, which is
ceil(begin * threads / tasks).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...devices.element_types import encode
from ...launches.implementation import Array
from ...problem import Problem
from ..aligned import aligned
from ..text.writer import Writer

MOST_UNEVEN = 1.1  # the largest share of a thread, as a multiple of an equal share


@dataclass(frozen=True, slots=True)
class Tiling:
    """The sizes of one image and group, and of its tiles. A matrix product has one row, of m pixels."""

    row_w: int  # output pixels of a row
    rows: int
    k: int  # output channels of a group
    c: int  # input channels of a group
    tile_w: int
    tile_h: int
    lanes: int  # output channels of a tile
    chunk: int  # tiles that all output channels process before the next chunk; 0: a channel block is a task
    threads: int
    images: int = 1  # times groups

    @property
    def columns(self) -> int:
        """The number of tiles in a row."""
        return -(-self.row_w // self.tile_w)

    @property
    def k_blocks(self) -> int:
        """The number of blocks of output channels."""
        return -(-self.k // self.lanes)

    @property
    def _tiles(self) -> int:
        return self.columns * -(-self.rows // self.tile_h)

    @property
    def _k_tasks(self) -> int:
        return 1 if self.chunk else self.k_blocks

    @property
    def _chunk(self) -> int:
        return self.chunk or -(-self._tiles // min(self.threads, self._tiles))

    @property
    def visits(self) -> int:
        """The number of tiles that read a panel one after the other."""
        return min(self._chunk, self._tiles)

    @property
    def tasks(self) -> int:
        """The number of tasks of all images and groups."""
        return self.images * self._k_tasks * -(-self._tiles // self._chunk)

    def runs(self, images: int) -> int:
        """The number of runs (`Phase.runs`) of a chained kernel for a batch of `images`, groups not counted."""
        chunks = -(-self._tiles // self._chunk)
        return 1 if self.chunk else row_runs(images, self.threads, self.tasks // chunks, self._tiles)

    def arguments(self, taps: int) -> dict[str, int]:
        """The launch arguments, for weights packed by `pack`."""
        return {
            "block": self.lanes, "tile_w": self.tile_w, "tile_h": self.tile_h, "tile_columns": self.columns,
            "tiles": self._tiles, "last_column": self.row_w - self.tile_w, "last_inner": self.row_w - self.tile_w,
            "last_row": self.rows - self.tile_h, "chunk": self._chunk, "chunks": -(-self._tiles // self._chunk),
            "k_tasks": self._k_tasks, "k_blocks_per_task": self.k_blocks // self._k_tasks, "k_blocks": self.k_blocks,
            "last_k": self.k - self.lanes, "channels": self.c,
            "weights_block": self.c * taps * self.lanes, "w_channel": taps * self.lanes,
            "w_tap": self.c * self.lanes}


def row_runs(images: int, threads: int, runs: int, rows: int) -> int:
    """The number of runs (`Phase.runs`) of a kernel, so that a thread computes the same rows of images in all kernels.

    The tasks are `runs` runs, each of which computes some channels of all `rows` (rows of tiles, or tiles). If all
    threads share every run, each of them reads the rows that it wrote, and the answer is `runs`. The answer is 1 where
    the threads take whole images, and where the rows cannot be divided evenly, because an idle thread costs more. One
    run divides the channels: all threads read all rows, and on some CPUs writing a cache line that several cores have
    read takes much longer than writing one that only another core has written.
    """
    even = -(-rows // threads) * threads <= MOST_UNEVEN * rows
    return runs if images % threads and even else 1


def in_word(problem: Problem) -> int:
    """The number of input channels, or steps of a reduction, in 4 bytes, which one instruction multiplies."""
    return 4 // problem.element.size


def pack(weights: Array, groups: int, lanes: int, taps_outside: bool) -> Array:
    """Panels of (k, c // groups, r, s) weights: [group][block of k][tap and c in this order][k].

    The last block of k overlaps its predecessor.
    """
    k, c, r, s = weights.shape
    per_group = k // groups
    order = (0, 3, 2, 1) if taps_outside else (0, 2, 3, 1)
    panels = weights.reshape(groups, per_group, c, r * s).transpose(order).reshape(groups, c * r * s, per_group)
    blocks = -(-per_group // lanes)
    packed: Array = aligned((groups, blocks, c * r * s, lanes))
    for block in range(blocks):
        first = min(block * lanes, per_group - lanes)
        packed[:, block] = panels[:, :, first:first + lanes]
    return packed


def pack_words(weights: NDArray[np.int8], lanes: int, corrected: bool) -> Array:
    """The panels of `pack` for int8 weights of shape (k, c), as words of four neighbouring channels; 4 divides c.

    Words are returned as floats of the same bits. If `corrected`, each panel begins with a row of 32-bit numbers: for
    each k, -128 times the sum of its weights. Sums that begin with them, to which products of x + 128 are added (it is
    not negative), end as the sums of the products of x.
    """
    panels = [pack(weights[:, first::4, None, None].astype(np.float32), 1, lanes, True) for first in range(4)]
    words = np.stack([panel.astype(np.int8) for panel in panels], axis=-1)  # (1, block, word, k, 4)
    rows = int(corrected)
    packed = aligned((*words.shape[:2], words.shape[2] + rows, lanes), np.int32)
    packed[:, :, rows:] = words.view(np.int32)[..., 0]
    if corrected:
        packed[:, :, 0] = -128 * words.sum(axis=(2, 4), dtype=np.int32)
    return packed.view(np.float32)


def pack_pairs(weights: Array, groups: int, lanes: int, taps_outside: bool) -> Array:
    """The panels of `pack` with pairs of neighbouring channels, rounded to bf16, as its floats; c // groups is even.

    The lower half of a float's bits is the first channel.
    """
    halves = [pack(weights[:, first::2], groups, lanes, taps_outside) for first in (0, 1)]
    pairs = np.stack([encode(half, "bf16") for half in halves], axis=-1,
                     out=aligned((*halves[0].shape, 2), np.uint16))
    return pairs.view(np.float32)[..., 0]


Taps = tuple[tuple[int, ...], ...]  # for every filter column: the pixels of the tile to which it applies


@dataclass(frozen=True, slots=True)
class Borders:
    """Zero padding that tiles leave out. A tile is one row high; only the first and last of a row reach padding."""

    left: int  # columns of padding before the first pixel's first tap
    right: int  # columns from the input's last to the last pixel's last tap
    stride: int
    dilation: int
    whole: bool  # a tile covers a whole row

    def taps(self, s: int, tile_w: int, left: bool, right: bool) -> Taps:
        """The pixels to which each filter column applies, in a tile at the given ends of its row."""
        def inside(pixel: int, column: int) -> bool:
            begin = pixel * self.stride + column * self.dilation
            end = (tile_w - 1 - pixel) * self.stride + (s - 1 - column) * self.dilation
            return (not left or begin >= self.left) and (not right or end >= self.right)

        return tuple(tuple(pixel for pixel in range(tile_w) if inside(pixel, column)) for column in range(s))


def pieces(threads: int, tasks: int) -> int:
    """The number of slices. With one task, one slice; otherwise any thread may receive work, so one per thread."""
    return threads if tasks > 1 else 1


def write_piece(write: Writer, threads: str, tasks: str, floats: str) -> str:
    """The pointer to the slice of the thread whose share begins with the task %begin; a slice has `floats` floats."""
    up = write.add(write.mul("%begin", threads), write.i64("sub", tasks, 1))
    return write.at("%workspace", write.mul(write.i64("udiv", up, tasks), floats))
