"""The parameters, derived quantities and constraints that all tensor-core families share, and their launches.

A family gives the sizes of its matrix product: `gemm_m`, `gemm_n`, `gemm_k`, `products`, `a_by_k` (1 if a row of A's
tile in shared memory is one k), `load_bytes` (of one copy of A), `store_bytes` and `copy_registers` (of each copy of A
that a thread makes: its address and what is held of it). The numbers in the estimate of registers are a linear fit to
the assembler's counts of 99 compiled configurations on sm_75 to sm_90: half of them are within 8, 97 of 99 within 32.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..kernel import Parameter
from ..launches.call import Call, CallStep, Packing
from ..launches.entry_arguments import entry_arguments
from ..launches.implementation import Array, KernelSource
from ..problem import Problem
from .source.tensor_tile import TensorTile

PADDING = 8  # elements: 16 bytes, which moves every row of shared memory to other banks

PARAMETERS = (
    Parameter("block_m", (16, 32, 64, 128, 256), "rows of a thread block"),
    Parameter("block_n", (32, 64, 96, 128, 192, 256), "columns of a thread block"),
    Parameter("warp_m", (16, 32, 64, 128), "rows of a warp"),
    Parameter("warp_n", (16, 32, 48, 64, 96, 128), "columns of a warp"),
    Parameter("block_k", (16, 32, 64), "depth of a stage"),
    Parameter("stages", (1, 2, 3, 4, 5), "stages in shared memory; 1: no copy runs beside the arithmetic"),
    Parameter("fragments", (1, 2), "sets of fragments in registers; 2: the next are loaded before they are needed"),
    Parameter("layout_shared", ("swizzle", "padding"), "how rows of shared memory avoid bank conflicts"),
    Parameter("epilogue", ("direct", "shared"), "stores come from registers or through shared memory"),
    Parameter("group_m", (1, 4, 16), "rows of blocks that run together, which share data in the second-level cache"),
    Parameter("schedule", ("tiles", "stream_k"), "a block has a tile, or an equal share of all iterations"),
    Parameter("split_k", (1, 2, 3, 4, 6, 8, 12, 16), "slices of k, whose partial sums a second launch adds"),
)

DERIVED = (
    ("element_bytes", "2"),
    ("tensor", "1"),
    ("warps", "(block_m // warp_m) * (block_n // warp_n)"),
    ("block_threads", "warps * 32"),
    ("m_tiles", "ceil_div(gemm_m, block_m)"),
    ("n_tiles", "ceil_div(gemm_n, block_n)"),
    ("k_tiles", "ceil_div(gemm_k, block_k)"),
    ("tiles", "products * m_tiles * n_tiles"),
    ("m_waste", "m_tiles * block_m / gemm_m"),
    ("n_waste", "n_tiles * block_n / gemm_n"),
    ("row_padding", f"{PADDING} if layout_shared == 'padding' else 0"),
    ("stage_bytes", "2 * ((block_k * (block_m + row_padding) if a_by_k else block_m * (block_k + row_padding))"
                    " + block_n * (block_k + row_padding))"),
    ("tile_bytes", "2 * (block_n * (block_m + 8) if y_by_column else block_m * (block_n + 8))"),
    ("shared_bytes", "max(stages * stage_bytes, tile_bytes if epilogue == 'shared' else 0)"),
    ("a_copies", "ceil_div(block_m * block_k * 2, load_bytes * block_threads)"),
    ("b_copies", "ceil_div(block_n * block_k, 8 * block_threads)"),
    ("held_registers", "a_copies * ceil_div(load_bytes, 4) + b_copies * 4 if compute_capability < 80 else 0"),
    ("accumulator_registers", "warp_m * warp_n // 32"),
    ("fragment_registers", "fragments * (warp_m + warp_n) // 4"),
    ("thread_registers_estimate",
     "round_up(accumulator_registers + fragment_registers + copy_registers * a_copies"
     " + (b_copies + held_registers) // 2 + (44 if schedule == 'stream_k' else 24), 8)"),
    ("resident_blocks",
     "max(1, min(unit_blocks, unit_threads // block_threads, unit_shared // (shared_bytes + reserved_shared),"
     " unit_registers // (block_threads * thread_registers_estimate)))"),
    ("grid", "min(compute_units * resident_blocks, tiles * k_tiles)"),
    ("streamed", "tiles if tiles < grid else tiles % grid + grid"),
    ("blocks", "grid if schedule == 'stream_k' else tiles * split_k"),
    ("block_tiles", "tiles / grid if schedule == 'stream_k' else 1"),
    ("partial_tiles", "2 * (streamed / tiles) if schedule == 'stream_k' else 0"),
    ("waves", "blocks / (compute_units * resident_blocks)"),
    ("idle", "ceil_div(blocks, compute_units * resident_blocks) / waves"),
    ("workspace_floats", "block_m * block_n * (2 * grid if schedule == 'stream_k' else"
                         " tiles * split_k if split_k > 1 else 0)"),
)

TILE_ARGUMENTS = ("m_tiles", "n_tiles", "k_tiles", "band", "slices", "streamed", "tiles", "blocks")

SOLVES = (
    ("dtype == 'fp16' or dtype == 'bf16'", "only fp16 and bf16"),
    ("compute_capability >= 75", "these products (mma.sync m16n8) begin with sm_75"),
    ("dtype == 'fp16' or compute_capability >= 80", "bf16 begins with sm_80"),
)

CONSTRAINTS = (
    ("block_m == 16 or block_m < 2 * gemm_m", "most of the block would lie beyond the last row"),
    ("block_n == 32 or block_n < 2 * gemm_n", "most of the block would lie beyond the last column"),
    ("block_m % warp_m == 0 and block_n % warp_n == 0", "tiles of warps must divide the block"),
    ("warps >= 2 and warps <= 8", "a block has 2 to 8 warps"),
    ("block_m == 16 or warp_m * 3 >= warp_n and warp_n * 3 >= warp_m",
     "narrow tiles of warps load too much for their arithmetic"),
    ("block_k <= 32 or block_k < 2 * gemm_k", "most of the stage would lie beyond the end of k"),
    ("block_m * block_k >= 8 * block_threads and block_n * block_k >= 8 * block_threads",
     "some threads would copy nothing"),
    ("stages > 1 or compute_capability < 80", "asynchronous copies need at least 2 stages"),
    ("stages < 3 or compute_capability >= 80", "sm_75 copies through registers, which hold one stage"),
    ("stages == 2 or stages <= k_tiles", "there are more stages than tiles of k"),
    ("fragments == 1 or stages > 1 and block_k > 16",
     "fragments are loaded ahead only with 2 stages or more, each deeper than 16"),
    ("shared_bytes <= local_memory", "the device has less shared memory for a block"),
    ("thread_registers_estimate <= 255", "a thread has at most 255 registers"),
    ("thread_registers_estimate * block_threads <= unit_registers",
     "the block needs more registers than a multiprocessor has"),
    ("group_m == 1 or group_m < 2 * m_tiles and n_tiles > 1",
     "there are too few rows of blocks, or only one column of them, to group rows"),
    ("schedule == 'tiles' or k_tiles >= 4 and tiles % grid > 0 and tiles < 8 * grid",
     "equal shares change little behind many waves of tiles, and nothing where no wave is short"),
    ("split_k == 1 or schedule == 'tiles' and epilogue == 'direct'",
     "a second launch adds the slices, and stores directly"),
    ("split_k == 1 or split_k * 2 <= k_tiles", "a slice needs at least 2 tiles of k"),
    ("split_k == 1 or tiles * (split_k - 1) < 2 * compute_units", "the tiles occupy the device without slices"),
    ("workspace_floats <= 1 << 27", "the partial sums take more than half a gigabyte"),
)

DEFAULT: Mapping[str, int | str] = {
    "block_m": 128, "block_n": 128, "warp_m": 64, "warp_n": 64, "block_k": 32, "stages": 3,
    "fragments": 2, "layout_shared": "swizzle", "epilogue": "shared", "group_m": 4, "schedule": "tiles",
    "split_k": 1}


def tile_of(names: Mapping[str, Any]) -> TensorTile:
    """The numbers of the text, given all quantities of a configuration."""
    slices = "slices" if names["split_k"] > 1 else "tiles"
    return TensorTile(
        names["dtype"], names["compute_capability"] >= 80, names["block_m"], names["block_n"], names["block_k"],
        names["warp_m"], names["warp_n"], names["stages"], names["fragments"], names["row_padding"],
        names["load_bytes"] // 2, bool(names["a_by_k"]), names["store_bytes"] // 2, names["epilogue"] == "shared",
        bool(names["y_by_column"]), names["bias"] == "yes", names["activation"] == "relu",
        "stream_k" if names["schedule"] == "stream_k" else slices)


def tile_arguments(names: Mapping[str, Any]) -> dict[str, int]:
    """The arguments that determine which block computes what."""
    return {"m_tiles": names["m_tiles"], "n_tiles": names["n_tiles"], "k_tiles": names["k_tiles"],
            "band": names["group_m"], "slices": names["split_k"], "streamed": names["streamed"],
            "tiles": names["tiles"], "blocks": names["grid"]}


def tensor_call(problem: Problem, source: KernelSource, names: Mapping[str, Any], entry: str,
                integers: Iterable[int], packing: Packing) -> Call:
    """The call: the products, then the sum of their parts where tiles are shared."""
    threads, shared = names["block_threads"], names["shared_bytes"]
    rows = names["warp_m"] // 16
    arguments = entry_arguments(problem, integers, packing, names["workspace_floats"])
    if names["schedule"] == "stream_k":
        steps = [CallStep(f"{entry}_tiles", arguments, (names["grid"] * threads,), (threads,), shared),
                 CallStep(f"{entry}_add", arguments, (names["streamed"] * rows * threads,), (threads,))]
    else:
        steps = [CallStep(f"{entry}_tiles", arguments, (names["tiles"] * threads, names["split_k"]), (threads, 1),
                          shared)]
        if names["split_k"] > 1:
            steps.append(CallStep(f"{entry}_add", arguments, (names["tiles"] * rows * threads,), (threads,)))
    return Call(source, tuple(steps))


def panels(columns: Array, block_n: int, block_k: int) -> Array:
    """Pack B, given as (product, column, k), into [product][tile][tile of k][column][k], with zeros beyond its end."""
    products, n, k = columns.shape
    padded = np.zeros((products, -(-n // block_n) * block_n, -(-k // block_k) * block_k), np.float32)
    padded[:, :n, :k] = columns
    tiles = padded.reshape(products, -1, block_n, padded.shape[2] // block_k, block_k)
    return np.ascontiguousarray(tiles.transpose(0, 1, 3, 2, 4))
