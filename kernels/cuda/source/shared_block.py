"""SharedBlock: the numbers of a matrix product in shared memory, and the launch that they need.

A thread block computes block_m x block_n of C = A B, block_k of the sum at a time. Rows of A are rows of a matrix, or
the gathered pixels of a convolution; B is packed into panels of block_n columns, padded with zeros to whole tiles. A
thread computes thread_m x thread_n, in fours that lie apart, so that the threads of a warp read neighbouring fours. A
warp covers lanes_n threads along the columns by 32 / lanes_n along the rows. No text relies on warps to run in step.

Sources: the structure of NVIDIA CUTLASS's SIMT GEMM (threadblock, warp and thread tiles; stages), and of Triton's
matrix product (rows of blocks that run together).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...launches.call import Call, CallStep, Packing
from ...launches.entry_arguments import entry_arguments
from ...launches.implementation import KernelSource
from ...problem import Problem

WARP = 32
REDUCE_GROUP = 256
REDUCE_BLOCKS = 4096  # most blocks; then each thread sums several elements

# Steps and offsets count floats.
ARGUMENTS = (
    "rows", "outputs", "channels",  # of A, of one group of B, of one tap: m, n and k of a product
    "spots", "blocks",  # blocks along the rows and the outputs
    "tiles", "slices", "share",  # tiles of the sum; slices of it, and the tiles of one slice
    "x_row", "x_channel",  # steps of A
    "x_image", "x_group", "x_line", "x_pixel",  # of a convolution's input
    "taps", "filter_w", "height", "width", "columns", "area",  # of the filter, input and output
    "above", "before", "stride_h", "stride_w", "dilation_h", "dilation_w",
    "y_row", "y_image", "y_group", "y_total", "bias_step", "bias_count",
)


@dataclass(frozen=True, slots=True)
class SharedBlock:
    """The numbers that determine the source text; sizes are powers of two."""

    block_m: int
    block_n: int
    block_k: int
    thread_m: int
    thread_n: int
    lanes_n: int
    stages: int  # 1: load, wait, compute; 2 and more: buffers in shared memory
    asynchronous: bool  # copies by cp.async, else through registers
    pad: int  # floats between the rows of A in shared memory
    group_m: int
    split: bool  # slices of the sum are kept in the workspace, and a second step adds them
    load_a: int  # floats of one load of A
    rows_first: bool  # neighbouring rows of A are neighbours in memory, else neighbouring channels
    gathered: bool  # A is gathered from the input of a convolution
    flat: bool  # a tile of the sum may hold several taps, else block_k channels of one tap
    padded: bool  # taps may lie outside the input
    ragged: bool  # the last tile of a tap (or of the sum) may be partly empty
    columns_last: bool  # neighbouring columns of C are neighbours in memory, else neighbouring rows
    store: int  # floats of one store
    bias: bool
    relu: bool

    @property
    def threads_m(self) -> int:
        """The number of threads of a block along the rows."""
        return self.block_m // self.thread_m

    @property
    def threads_n(self) -> int:
        """The number of threads of a block along the columns."""
        return self.block_n // self.thread_n

    @property
    def threads(self) -> int:
        """The number of threads of a block."""
        return self.threads_m * self.threads_n

    @property
    def load_b(self) -> int:
        """The floats of one load of B."""
        return min(4, self.block_k * self.block_n // self.threads)

    @property
    def loads_a(self) -> int:
        """The number of loads of A by a thread for one tile."""
        return self.block_m * self.block_k // self.threads // self.load_a

    @property
    def loads_b(self) -> int:
        """The number of loads of B by a thread for one tile."""
        return self.block_k * self.block_n // self.threads // self.load_b

    @property
    def pitch(self) -> int:
        """The floats from one channel of A to the next in shared memory."""
        return self.block_m + self.pad

    @property
    def buffer(self) -> int:
        """The floats of one tile of A and of B in shared memory."""
        return self.block_k * (self.pitch + self.block_n)


def shared_call(problem: Problem, source: KernelSource, block: SharedBlock, sizes: Mapping[str, int],
                packing: Packing, *, groups: int, slices: int) -> Call:
    """The call for a problem described by ARGUMENTS; what follows from the block may be left out of `sizes`.

    `slices` must leave no slice empty.
    """
    values = {**dict.fromkeys(ARGUMENTS, 0), **sizes}
    values["spots"] = -(-values["rows"] // block.block_m)
    values["blocks"] = -(-values["outputs"] // block.block_n)
    values["slices"] = slices
    values["share"] = -(-values["tiles"] // slices)
    arguments = entry_arguments(problem, (values[name] for name in ARGUMENTS), packing,
                                slices * values["y_total"] if block.split else 0)
    steps = [CallStep("shared_block", arguments,
                      (values["spots"] * values["blocks"] * block.threads, slices * groups), (block.threads, 1),
                      shared=4 * block.stages * block.buffer)]
    if block.split:
        groups_needed = min(REDUCE_BLOCKS, -(-values["y_total"] // REDUCE_GROUP))
        steps.append(CallStep("reduce", arguments, (groups_needed * REDUCE_GROUP, 1), (REDUCE_GROUP, 1)))
    return Call(source, tuple(steps))
