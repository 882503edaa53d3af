"""cuda.wgmma_gemm: matrix product in fp16 or bf16 on Hopper, by TMA copies and the tensor cores' warpgroup products."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..devices.device import Device
from ..kernel import Configuration, Kernel, Parameter
from ..launches.call import BufferArgument, Call, CallStep, TensorMapArgument
from ..launches.entry_arguments import entry_arguments
from ..launches.implementation import Array
from ..problem import Problem
from .source.warpgroup_text import SUM_THREADS, source
from .source.warpgroup_tile import ELEMENT, StagedOperand, WarpgroupTile

ROW_ELEMENTS = 8  # rows of a tensor map are multiples of 16 bytes
MOST_SUM_BLOCKS = 65536  # blocks of the second step; threads take further elements in turn

KERNEL = Kernel.of(
    name="cuda.wgmma_gemm",
    operation="gemm",
    meaning="matrix product of warpgroups on Hopper's tensor cores, fed by bulk tensor copies",
    parameters=(
        Parameter("block_m", (64, 128, 192, 256), "rows of C of a thread block"),
        Parameter("block_n", (16, 32, 64, 96, 128, 160, 192, 224, 256), "columns of C of a thread block"),
        Parameter("block_k", (32, 64, 128), "depth of a stage"),
        Parameter("consumers", (1, 2, 3), "warpgroups that multiply, beside the one that fetches"),
        Parameter("stages", (2, 3, 4, 5, 6, 8), "stages of the ring in shared memory"),
        Parameter("resident", (1, 2), "thread blocks that share a multiprocessor's registers"),
        Parameter("cluster", (1, 2), "thread blocks, neighbours along m, that fetch B together"),
        Parameter("schedule", ("persistent", "tiles"), "blocks take tiles in turn, or each block computes one"),
        Parameter("group_m", (1, 4, 8, 16), "rows of blocks that run together, so that they share B in the L2 cache"),
        Parameter("split_k", (1, 2, 3, 4, 6, 8), "slices of k, summed by a second kernel"),
    ),
    derived=(
        ("gemm_m", "m"), ("gemm_n", "n"), ("gemm_k", "k"), ("products", "1"),
        ("element_bytes", f"{ELEMENT}"), ("tensor", "2"), ("load_bytes", "16"),
        ("padded_m", "ceil_div(m, 64) * 64"), ("padded_n", "ceil_div(n, 32) * 32"),
        ("block_threads", "128 * (consumers + 1)"),
        ("sums", "block_m // consumers * block_n // 128"),
        ("shared_bytes", "stages * ((block_m + block_n) * block_k * 2 + 16)"),
        # threads of a multiprocessor share 65536 registers in eights; setmaxnreg moves some to those that multiply
        ("entry_registers", "65536 // (block_threads * resident) // 8 * 8"),
        ("fetcher_registers", "32 if consumers == 3 else 40"),
        ("consumer_registers", "255 if entry_registers > 255 else "
                               "(entry_registers * (consumers + 1) - fetcher_registers) // consumers // 8 * 8"),
        ("thread_registers_estimate", "min(255, sums + 44) if entry_registers > 255 else entry_registers"),
        ("tiles_m", "ceil_div(m, block_m * cluster) * cluster"),
        ("tiles_n", "ceil_div(n, block_n)"),
        ("tiles", "tiles_m * tiles_n * split_k"),
        ("slots", "compute_units * resident // cluster * cluster"),
        ("blocks", "min(tiles, slots) if schedule == 'persistent' else tiles"),
        ("block_tiles", "tiles / blocks"),
        ("multicast_share", "(block_m + block_n / cluster) / (block_m + block_n)"),  # in a column
        ("waves", "tiles / slots"),
        ("steps", "ceil_div(k, block_k)"),
        ("slice_steps", "ceil_div(steps, split_k)"),
    ),
    solves=(
        ("dtype == 'fp16' or dtype == 'bf16'", "only fp16 and bf16"),
        ("compute_capability == 90", "wgmma exists on sm_90 alone"),
        ("(m if trans_a == 'yes' else k) % 8 == 0", "rows of A must be multiples of 16 bytes for tensor copies"),
    ),
    constraints=(
        ("block_m % (64 * consumers) == 0", "a consumer computes multiples of 64 rows"),
        ("block_m <= 64 or block_m < 2 * padded_m", "half of the block would lie beyond the last row"),
        ("block_n <= 32 or block_n < 2 * padded_n", "half of the block would lie beyond the last column"),
        ("block_k <= 64 or k > 64", "half of the stage would lie beyond the end of k"),
        ("sums + 40 <= consumer_registers", "the sums and addresses do not fit in a thread's registers"),
        ("block_n // 2 + 26 <= entry_registers", "ptxas refuses a product whose sums exceed the registers at entry"),
        ("resident == 1 or consumers == 1", "three warpgroups leave no registers for a second block"),
        ("shared_bytes <= local_memory", "the ring does not fit in shared memory"),
        ("resident * (shared_bytes + reserved_shared) <= unit_shared", "the rings do not fit in a multiprocessor"),
        ("cluster == 1 or m > block_m", "a cluster needs two rows of blocks"),
        ("block_n // cluster % (8 if trans_b == 'yes' else 16) == 0",
         "each block of a cluster must fetch a multiple of 8 or 16 columns"),
        ("stages <= max(2, slice_steps * (2 if schedule == 'persistent' else 1))",
         "there are more stages than steps of k"),
        ("schedule == 'tiles' or tiles > slots", "all tiles run at once in either schedule"),
        ("group_m % cluster == 0", "a group must consist of whole clusters"),
        ("group_m == 1 or group_m <= tiles_m * 2", "the group has more rows of blocks than C"),
        ("split_k == 1 or tiles_m * tiles_n < 2 * compute_units", "there are enough tiles without slices"),
        ("(split_k - 1) * slice_steps < steps", "every slice needs a part of k"),
    ),
    default={"block_m": 128, "block_n": 256, "block_k": 64, "consumers": 2, "stages": 4, "resident": 1, "cluster": 1,
             "schedule": "persistent", "group_m": 8, "split_k": 1},
    version=1,
    implementation="seqtune.kernels.cuda.wgmma_gemm:IMPLEMENTATION",
)


class WgmmaGemm:
    """Runs cuda.wgmma_gemm; each source works for all shapes of one layout and epilogue."""

    includes = "the product, the sum of its slices and its epilogue; rows of B padded to 16 bytes before, once"

    def call(self, problem: Problem, device: Device, configuration: Configuration) -> Call:
        """The blocks: as many as fit the device that take tiles in turn, or one for each tile; and the sum of slices.

        The entries take the tensor maps of A and B before the operands.
        """
        tile, number = warpgroup_tile(problem, configuration), configuration.number
        m, n, k = problem.size("m"), problem.size("n"), problem.size("k")
        slices, depths = number("split_k"), -(-k // tile.block_k)
        tiles_m, tiles_n = -(-m // (tile.block_m * tile.cluster)), -(-n // tile.block_n)
        clusters = tiles_m * tiles_n * slices
        if configuration["schedule"] == "persistent":
            clusters = min(clusters, device.compute_units * tile.resident // tile.cluster)
        integers = (m, n, tiles_m, tiles_n, max(1, number("group_m") // tile.cluster), depths, -(-depths // slices),
                    slices)
        operands = entry_arguments(problem, integers, PaddedRows(), slices * m * n if tile.split else 0)
        x, weights = (argument for argument in operands[:2] if isinstance(argument, BufferArgument))
        arguments = (_map(x, tile.a, m, k, m if tile.trans_a else k),
                     _map(weights, tile.b, n, k, _padded(k if tile.trans_b else n)), *operands)
        steps = [CallStep("wgmma_gemm", arguments, (clusters * tile.cluster * tile.threads,), (tile.threads,),
                          tile.shared, tile.cluster)]
        if tile.split:
            blocks = min(MOST_SUM_BLOCKS, -(-m * n // SUM_THREADS))
            steps.append(CallStep("sum_slices", arguments, (blocks * SUM_THREADS,), (SUM_THREADS,)))
        return Call(source(tile), tuple(steps))


def warpgroup_tile(problem: Problem, configuration: Configuration) -> WarpgroupTile:
    """The numbers that determine the text."""
    number = configuration.number
    return WarpgroupTile(
        str(problem["dtype"]), number("block_m"), number("block_n"), number("block_k"), number("consumers"),
        number("stages"), number("resident"), number("cluster"), problem["trans_a"] == "yes",
        problem["trans_b"] == "yes", number("split_k") > 1, problem.size("n") % 2 == 0, problem["bias"] == "yes",
        problem["activation"] == "relu")


@dataclass(frozen=True, slots=True)
class PaddedRows:
    """B as it is stored, with zeros behind each row up to a multiple of 16 bytes."""

    def pack(self, array: Array) -> Array:
        """Pack B."""
        rows, columns = array.shape
        if columns % ROW_ELEMENTS == 0:
            return array
        packed = np.zeros((rows, _padded(columns)), np.float32)
        packed[:, :columns] = array
        return packed


def _padded(columns: int) -> int:
    return -(-columns // ROW_ELEMENTS) * ROW_ELEMENTS


def _map(buffer: BufferArgument, operand: StagedOperand, width: int, depth: int, step: int) -> TensorMapArgument:
    """The tensor map of an operand whose rows are `step` elements apart."""
    sizes = (width, depth) if operand.across else (depth, width)
    return TensorMapArgument(buffer, sizes, (step,), operand.box, operand.row)


IMPLEMENTATION = WgmmaGemm()
