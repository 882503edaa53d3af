"""SharedBlock: the numbers of a matrix product in shared memory, and the launch that they need.

A thread block computes block_m x block_n of C = A B, block_k of the sum at a time. Rows of A are rows of a matrix, or
the gathered pixels of a convolution; B is packed into panels of block_n columns, padded with zeros to whole tiles. A
thread computes thread_m x thread_n, in fours that lie apart, so that the threads of a warp read neighbouring fours. A
warp covers lanes_n threads along the columns by 32 / lanes_n along the rows. No text relies on warps to run in step.

Sources: the structure of NVIDIA CUTLASS's SIMT GEMM (threadblock, warp and thread tiles; stages), and of Triton's
matrix product (rows of blocks that run together).

A family adds its own sizes before DERIVED: gemm_m, gemm_n, gemm_k, products, `tiles` (of the sum), `rows_first` (1
where neighbouring rows of A are neighbours in memory), `contiguous` (a size that every aligned run of A's elements
divides) and `row_registers` (that a thread needs for a row that it loads).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ...kernel import Configuration, Parameter, Setting
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


PARAMETERS = (
    Parameter("block_m", (16, 32, 64, 128, 256), "rows of C of a block"),
    Parameter("block_n", (16, 32, 64, 128, 256), "columns of C of a block"),
    Parameter("thread_m", (1, 2, 4, 8, 16), "rows of C of a thread"),
    Parameter("thread_n", (2, 4, 8), "columns of C of a thread"),
    Parameter("block_k", (8, 16, 32), "length of the sum in one tile of shared memory"),
    Parameter("copy", ("registers", "async"), "how tiles reach shared memory: through registers, or by cp.async"),
    Parameter("stages", (1, 2, 3, 4), "tiles in shared memory; 1: loads and arithmetic take turns"),
    Parameter("lanes_n", (2, 4, 8, 16), "threads of a warp along the columns; the others lie along the rows"),
    Parameter("pad", (0, 4), "floats between the rows of A's tile, against bank conflicts"),
    Parameter("group_m", (1, 4, 16), "rows of blocks that run together, for reuse in the second-level cache"),
    Parameter("split_k", (1, 2, 4, 8, 16), "slices of the sum, which different blocks compute"),
)

DERIVED = (
    ("threads_m", "block_m // thread_m"),
    ("threads_n", "block_n // thread_n"),
    ("block_threads", "threads_m * threads_n"),
    ("thread_a", "block_m * block_k // block_threads"),
    ("thread_b", "block_n * block_k // block_threads"),
    ("load_a", "1 if copy == 'async' and rows_first == 0 else gcd(min(4, max(1, thread_a)), contiguous)"),
    ("load_bytes", "4 * load_a"),
    ("loads_a", "ceil_div(thread_a, load_a)"),
    ("shared_bytes", "stages * block_k * (block_m + pad + block_n) * 4"),
    ("staged", "thread_a + thread_b if copy == 'registers' else loads_a"),  # elements, or addresses
    ("thread_registers_estimate",
     "thread_m * thread_n + thread_m + thread_n + staged + row_registers * (1 if rows_first else loads_a) + 40"),
    ("panels", "ceil_div(gemm_n, block_n)"),
    ("spots", "ceil_div(gemm_m, block_m)"),
    ("blocks", "spots * panels * products * split_k"),
    ("element_bytes", "4"),
    ("tensor", "0"),
    ("m_waste", "spots * block_m / gemm_m"),
    ("n_waste", "panels * block_n / gemm_n"),
    ("blocks_per_unit", "blocks / compute_units"),
    ("loads_per_fma", "(thread_m + thread_n) / (thread_m * thread_n)"),
    ("bytes_per_flop", "(block_m + block_n) * 2 / (block_m * block_n)"),
)

CONSTRAINTS = (
    ("block_m < 2 * gemm_m or block_m == 16", "half of the block would lie outside the rows"),
    ("block_n < 2 * gemm_n or block_n == 16", "half of the block would lie outside the columns"),
    ("block_m <= 4 * block_n and block_n <= 4 * block_m or block_m >= gemm_m or block_n >= gemm_n",
     "narrow blocks load more than square ones"),
    ("thread_m * thread_n >= 8", "too few accumulators share a load"),
    ("thread_m <= 4 * thread_n and thread_n <= 4 * thread_m", "narrow tiles of threads load more than square ones"),
    ("block_threads >= 32 and block_threads <= min(max_work_group, 512)", "a block has 1 to 16 whole warps"),
    ("thread_a >= 1 and thread_b >= 1", "some threads would load nothing"),
    ("block_k == 8 or block_k < 2 * gemm_k", "half of the tile would lie outside the sum"),
    ("copy == 'registers' or compute_capability >= 80", "asynchronous copies need compute capability 8.0"),
    ("stages <= 2 if copy == 'registers' else stages >= 2",
     "copies through registers have at most 2 stages, asynchronous copies at least 2"),
    ("stages <= 2 or tiles >= stages", "there are more stages than tiles of the sum"),
    ("threads_n % lanes_n == 0 and threads_m % (32 // lanes_n) == 0", "warps must tile the block"),
    ("pad == 0 or rows_first == 0", "a tile that is not transposed has no bank conflicts"),
    ("shared_bytes <= local_memory", "the device has less shared memory"),
    ("thread_registers_estimate <= min(vector_registers, unit_registers // block_threads)",
     "the accumulators do not fit in the registers"),
    ("group_m == 1 or spots >= 2 * group_m and panels > 1",
     "there are too few rows of blocks, or only one column of them, to group rows"),
    ("split_k == 1 or blocks <= 4 * compute_units", "the blocks fill the device without slices"),
    ("split_k == 1 or ceil_div(tiles, ceil_div(tiles, split_k)) == split_k and tiles >= 2 * split_k",
     "slices would be empty, or too short"),
    ("split_k * products <= 65535", "a launch has 65,535 blocks at most along its second axis"),
    ("max(gemm_m * gemm_n, panels * block_n * tiles * block_k) * products < 2 ** 31", "offsets have 32 bits"),
    ("split_k == 1 or split_k * gemm_m * gemm_n * products < 2 ** 28", "the slices take too much memory"),
)

DEFAULT: dict[str, Setting] = {
    "block_m": 64, "block_n": 64, "thread_m": 4, "thread_n": 4, "block_k": 8, "copy": "registers", "stages": 2,
    "lanes_n": 8, "pad": 0, "group_m": 1, "split_k": 1}


def numbers(configuration: Configuration, *, contiguous: int, channels: int, rows_first: bool, columns_last: bool,
            stored: int, bias: bool, relu: bool, gathered: bool = False, flat: bool = False,
            padded: bool = False) -> SharedBlock:
    """The block of a configuration.

    `contiguous` is as in the declaration; `channels` is the length of the sum that tiles divide or not; `stored` is a
    size that every aligned run of C's elements divides.
    """
    number = configuration.number
    block_m, block_n, block_k = number("block_m"), number("block_n"), number("block_k")
    thread_m, thread_n = number("thread_m"), number("thread_n")
    threads = block_m // thread_m * (block_n // thread_n)
    asynchronous = configuration["copy"] == "async"
    load_a = math.gcd(min(4, block_m * block_k // threads), contiguous)
    run = min(4, thread_n if columns_last else thread_m)
    return SharedBlock(
        block_m, block_n, block_k, thread_m, thread_n, number("lanes_n"), number("stages"), asynchronous,
        number("pad"), number("group_m"), number("split_k") > 1, 1 if asynchronous and not rows_first else load_a,
        rows_first, gathered, flat, padded, channels % block_k > 0, columns_last, math.gcd(run, stored), bias, relu)
