"""gemlite.gemv_revsplitk: one row times packed weights, in pairs of slices of k (GEMV_REVSPLITK in gemlite's files)."""

from __future__ import annotations

from seqtune.kernels.kernel import Kernel, Parameter

from .tile import BOTH, SOLVES, VECTOR_LOAD_ORDER, VECTOR_TILE, WAVES

KERNEL = Kernel.of(
    name="gemlite.gemv_revsplitk",
    operation="quantized_gemm",
    meaning="one row times packed weights; a block reads two slices of k with one scale",
    parameters=(
        Parameter("BLOCK_SIZE_N", (32, 64, 128, 256, 512, 1024), "outputs of one thread block"),
        Parameter("BLOCK_SIZE_K", (8, 16, 32, 64, 128), "inputs of one slice"),
        VECTOR_LOAD_ORDER,
        Parameter("num_warps", (1, 2, 4), "warps of a thread block; wavefronts on AMD"),
        Parameter("num_stages", (1, 2), "stages of loads and arithmetic that overlap; 1: none"),
        WAVES,
    ),
    derived=(
        *VECTOR_TILE,
        ("split_k", "ceil_div(k, 2 * BLOCK_SIZE_K)"),
        ("blocks", "ceil_div(n, BLOCK_SIZE_N) * split_k"),
    ),
    solves=(*SOLVES, ("m == 1", "it multiplies one row"), ("weight_bits < 8", "gemlite takes it for less than 8 bits")),
    constraints=(
        *BOTH,
        ("2 * BLOCK_SIZE_K <= scale_k", "both slices have the same scales"),
        ("BLOCK_SIZE_K >= packed", "a slice has whole words"),
        ("amd == 1 or (BLOCK_SIZE_N <= 512 and BLOCK_SIZE_K <= 64)", "gemlite tries larger blocks on AMD's GPUs only"),
        ("amd == 0 or BLOCK_SIZE_N * BLOCK_SIZE_K < 65536", "gemlite's tuner hangs with such blocks on AMD's GPUs"),
    ),
    default={"BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 16, "A_load_order": 0, "num_warps": 1, "num_stages": 1,
             "waves_per_eu": 0},
    backends=("triton",),
)
