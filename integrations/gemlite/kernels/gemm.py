"""gemlite.gemm: products of many rows (GEMM in gemlite's files)."""

from __future__ import annotations

from seqtune.kernels.kernel import Kernel

from .tile import BLOCK_K, BLOCK_M, BLOCK_N, LOAD_ORDER, MATRIX, MATRIX_TILE, MORE_SHARED, SOLVES, STAGES, WARPS, WAVES

KERNEL = Kernel.of(
    name="gemlite.gemm",
    operation="quantized_gemm",
    meaning="product of many rows with packed weights",
    parameters=(BLOCK_M, BLOCK_N, BLOCK_K, LOAD_ORDER, WARPS, STAGES, WAVES),
    derived=(
        *MATRIX_TILE,
        ("split_k", "1"),
        ("blocks", "ceil_div(m, BLOCK_SIZE_M) * ceil_div(n, BLOCK_SIZE_N)"),
    ),
    solves=(*SOLVES, ("m > 64", "gemlite multiplies up to 64 rows by other kernels")),
    constraints=(
        *MATRIX,
        (f"amd == 1 or num_stages != 2 or local_memory <= {MORE_SHARED} or 3 * stage_bytes > local_memory",
         "two stages are tried on such a GPU only where three do not fit"),
    ),
    default={"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32, "A_load_order": 0, "num_warps": 4,
             "num_stages": 4, "waves_per_eu": 0},
    backends=("triton",),
)
