"""gemlite.gemm_splitk: products of few rows (GEMM_SPLITK in gemlite's files)."""

from __future__ import annotations

from dataclasses import replace

from seqtune.kernels.kernel import Kernel, Parameter

from .tile import BLOCK_K, BLOCK_M, BLOCK_N, LOAD_ORDER, MATRIX, MATRIX_TILE, SOLVES, STAGES, WARPS, WAVES

KERNEL = Kernel.of(
    name="gemlite.gemm_splitk",
    operation="quantized_gemm",
    meaning="product of few rows with packed weights, in slices of k",
    parameters=(replace(BLOCK_M, values=(16, 32, 64)), BLOCK_N, BLOCK_K,
                Parameter("SPLIT_K", (1, 2, 4, 8, 16), "slices of k, each with blocks of its own"),
                LOAD_ORDER, WARPS, STAGES, WAVES),
    derived=(
        *MATRIX_TILE,
        ("split_k", "SPLIT_K"),
        ("blocks", "ceil_div(m, BLOCK_SIZE_M) * ceil_div(n, BLOCK_SIZE_N) * SPLIT_K"),
    ),
    solves=(*SOLVES, ("1 < m and m <= 64", "gemlite multiplies 2 to 64 rows by it")),
    constraints=(
        *MATRIX,
        ("SPLIT_K == 1 or k % (BLOCK_SIZE_K * SPLIT_K) == 0", "the slices have whole stages"),
        ("m < 32 or SPLIT_K <= 8", "gemlite tries 16 slices for fewer than 32 rows"),
    ),
    default={"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32, "SPLIT_K": 1, "A_load_order": 0,
             "num_warps": 4, "num_stages": 2, "waves_per_eu": 0},
    backends=("triton",),
)
