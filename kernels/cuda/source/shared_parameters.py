"""The declaration that the families in shared memory have in common: parameters, derived quantities, constraints.

A family adds its own sizes before DERIVED: gemm_m, gemm_n, gemm_k, products, `tiles` (of the sum), `rows_first` (1
where neighbouring rows of A are neighbours in memory), `contiguous` (a size that every aligned run of A's elements
divides) and `row_registers` (that a thread needs for a row that it loads).
"""

from __future__ import annotations

import math

from ...kernel import Configuration, Parameter, Setting
from .shared_block import SharedBlock

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
