"""gemlite.gemv_splitk: one row times weights of 8 bits or more (GEMV_SPLITK in gemlite's files)."""

from __future__ import annotations

from seqtune.kernels.kernel import Kernel, Parameter

from .tile import BOTH, SOLVES, VECTOR_LOAD_ORDER, VECTOR_TILE, WARPS, WAVES

KERNEL = Kernel.of(
    name="gemlite.gemv_splitk",
    operation="quantized_gemm",
    meaning="one row times weights of 8 bits or more",
    parameters=(
        Parameter("BLOCK_SIZE_N", (1, 2, 4, 8, 16, 32, 64), "outputs of one thread block"),
        Parameter("BLOCK_SIZE_K", (32, 64, 128, 256, 512, 1024, 2048, 4096), "inputs of one thread block"),
        VECTOR_LOAD_ORDER,
        WARPS,
        Parameter("num_stages", (1, 2), "stages of loads and arithmetic that overlap; 1: none"),
        WAVES,
    ),
    derived=(
        *VECTOR_TILE,
        ("split_k", "ceil_div(k, BLOCK_SIZE_K)"),
        ("blocks", "ceil_div(n, BLOCK_SIZE_N) * split_k"),
    ),
    solves=(*SOLVES, ("m == 1", "it multiplies one row"), ("weight_bits >= 8", "gemlite takes it for 8 bits or more")),
    constraints=(
        *BOTH,
        ("BLOCK_SIZE_K >= packed", "a block has whole words"),
        ("k % BLOCK_SIZE_K == 0", "gemlite tries blocks that divide k"),
        ("BLOCK_SIZE_N * BLOCK_SIZE_K >= 1024 and BLOCK_SIZE_N * BLOCK_SIZE_K <= 32768",
         "gemlite tries blocks of 1024 to 32768 weights"),
        ("amd == 0 or num_warps == 4", "gemlite tries 4 wavefronts on AMD's GPUs"),
    ),
    default={"BLOCK_SIZE_N": 2, "BLOCK_SIZE_K": 2048, "A_load_order": 1, "num_warps": 4, "num_stages": 2,
             "waves_per_eu": 0},
    backends=("triton",),
)
