"""triton.scaled_gemm: linear layers of 8-bit operands with scales of blocks, in the kernel of vLLM and SGLang."""

from __future__ import annotations

from ..kernel import Kernel
from ..launches.indexing import offsets_fit
from .served_tile import CONSTRAINTS, PARAMETERS, TILE

KERNEL = Kernel.of(
    name="triton.scaled_gemm",
    operation="scaled_gemm",
    meaning="block-wise scaled matrix product, tuned for vLLM and SGLang",
    parameters=PARAMETERS,
    derived=(
        ("gemm_m", "m"),
        ("gemm_n", "n"),
        ("gemm_k", "k"),
        ("products", "1"),
        *TILE,
        ("blocks", "ceil_div(m, BLOCK_SIZE_M) * ceil_div(n, BLOCK_SIZE_N)"),
    ),
    solves=offsets_fit("scaled_gemm"),
    constraints=CONSTRAINTS,
    default={"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 32, "num_warps": 4,
             "num_stages": 3, "waves_per_eu": 0, "matrix_instr_nonkdim": 0, "kpack": 1},
)
