"""ProductTiles: how a GPU kernel cuts a matrix product into blocks, in names that are equal for all kernel families.

A family that computes a (possibly implicit, possibly grouped) matrix product declares the names in CONTRACT as derived
quantities; the analytic model reads them and knows no family. The names in REFINEMENTS are optional, as parameters or
derived quantities: a family that reads shared memory with bank conflicts, loads operands without it, or gives a block
several tiles declares them. Without them, a block has one tile, and fragments are loaded 16 bytes at a time without
conflicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import KernelError
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.spaces.value_tables import layout_of
from seqtune.kernels.task import Floats

CONTRACT = (
    "gemm_m", "gemm_n", "gemm_k", "products", "block_m", "block_n", "block_k", "block_threads", "stages", "split_k",
    "blocks", "shared_bytes", "thread_registers_estimate", "element_bytes", "tensor", "load_bytes", "group_m")
REFINEMENTS = ("thread_m", "thread_n", "warp_m", "warp_n", "fragment_loads", "fragment_transactions",
               "copy_transactions", "staged_share", "multicast_share", "block_tiles", "partial_tiles")
SEVERAL = 1.5  # tiles for a block from which the number of blocks says that blocks are persistent; less may be rounding
WORD = 4  # bytes of an fp32 number and of a register
WIDEST = 16  # bytes of the widest load of a thread
TRANSACTION = 128  # bytes that shared memory delivers in one transaction: 32 banks of 4 bytes


@dataclass(frozen=True, eq=False)
class ProductTiles:
    """The tiles of some configurations of one space.

    Every array is (configuration,), or (1,) where it depends on no parameter, as the sizes of the problem.
    """

    gemm_m: Floats  # sizes of one product; of a convolution: pixels, output channels, taps * input channels
    gemm_n: Floats
    gemm_k: Floats
    products: Floats  # independent products: groups, experts
    block_m: Floats  # tile of a thread block
    block_n: Floats
    block_k: Floats  # depth of one stage
    block_threads: Floats
    stages: Floats  # 1: loads and arithmetic do not overlap; 2: double buffering; more: a ring of cp.async or TMA
    split_k: Floats  # slices of k
    blocks: Floats  # thread blocks of the launch
    shared_bytes: Floats  # of a block, without the driver's reserve
    thread_registers_estimate: Floats  # of 32 bits
    element_bytes: Floats
    tensor: Floats  # 0: fp32 multiply-adds; 1: mma.sync; 2: wgmma
    load_bytes: Floats  # of one global load of a thread
    group_m: Floats  # rows of blocks that run together, for reuse in the second-level cache
    fragment_m: Floats  # tile of a thread; with tensor cores of a warp (thread_m, thread_n; warp_m, warp_n)
    fragment_n: Floats
    fragment_loads: Floats  # load instructions of a thread for one step of k
    fragment_transactions: Floats  # shared-memory transactions of a warp for one step of k, bank conflicts included
    copy_transactions: Floats  # transactions of a block that store one step of k into shared memory
    staged_share: Floats  # share of the fragments that comes through shared memory; the rest is read from global memory
    multicast_share: Floats  # share of a block's loads that leaves the second-level cache: clusters share some of them
    block_tiles: Floats  # tiles (or slices of tiles) of a block: more than 1 if blocks are persistent
    partial_tiles: Floats  # tiles of a block that other blocks add to, which costs a workspace (stream-k)


def describes_tiles(kernel: Kernel) -> bool:
    """Whether the kernel declares all names of CONTRACT, so that the analytic model can estimate its times."""
    return set(CONTRACT) <= {*declared(kernel)}


@lru_cache(maxsize=256)
def declared(kernel: Kernel) -> tuple[str, ...]:
    """The names of CONTRACT and REFINEMENTS that a kernel has."""
    names = {*kernel.by_name, *(name for name, _ in kernel.derived)}
    return tuple(name for name in (*CONTRACT, *REFINEMENTS) if name in names)


def tiles_of(space: SearchSpace, known: Mapping[str, NDArray[Any]] | None = None) -> ProductTiles:
    """The tiles of all rows of a space. Columns (row,) that are `known` are not computed.

    Raises KernelError if the kernel does not describe its tiles.
    """
    if not describes_tiles(space.kernel):
        raise KernelError(f"{space.kernel.name} does not describe its tiles ({', '.join(CONTRACT)})")
    axes, columns = layout_of(space.kernel).axes, space.derived_columns(declared(space.kernel), known=known)
    return ProductTiles(**refined({name: (column if axes[name] else column[:1]).astype(float)
                                   for name, column in columns.items()}))


def refined(known: dict[str, Floats]) -> dict[str, Floats]:
    """Add the REFINEMENTS that are missing to columns with all names of CONTRACT."""
    names = dict(known)
    cores = names["tensor"] > 0
    shares = np.where(cores, np.maximum(1, names["block_threads"] / 32), names["block_threads"])
    each = np.maximum(1.0, names["block_m"] * names["block_n"] / shares)
    # unless it is declared, the tile of a thread or warp is about square and no longer than the block's
    across = np.minimum(names["block_m"], 2.0 ** np.round(np.log2(each) / 2))
    names["fragment_m"] = np.where(cores, names.get("warp_m", across), names.get("thread_m", across))
    names["fragment_n"] = np.where(cores, names.get("warp_n", each / across), names.get("thread_n", each / across))
    size = np.where(cores, names["element_bytes"], WORD)
    fragment = (names["fragment_m"] + names["fragment_n"]) * size  # bytes for one step of k
    lanes = np.where(cores, 1, 32)
    names.setdefault("fragment_loads", fragment * lanes / (32 * WIDEST))
    names.setdefault("fragment_transactions", fragment * lanes / TRANSACTION)
    names.setdefault("copy_transactions", (names["block_m"] + names["block_n"]) * names["element_bytes"] / TRANSACTION)
    names.setdefault("staged_share", np.where(names["shared_bytes"] > 0, 1.0, 0.0))
    names.setdefault("multicast_share", np.ones_like(each))
    rows, columns = (np.ceil(names[f"gemm_{axis}"] / names[f"block_{axis}"]) for axis in "mn")
    tiles = names["products"] * rows * columns * np.maximum(1, names["split_k"]) / np.maximum(1, names["blocks"])
    names.setdefault("block_tiles", np.where(tiles >= SEVERAL, tiles, 1.0))
    names.setdefault("partial_tiles", np.zeros_like(tiles))
    return {field.name: names[field.name] for field in fields(ProductTiles)}
