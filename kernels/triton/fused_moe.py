"""triton.fused_moe: the grouped matrix products of a mixture of experts, in the kernel of vLLM and SGLang."""

from __future__ import annotations

from ..kernel import Kernel, Parameter
from .served_tile import CONSTRAINTS, PARAMETERS, TILE

# The rows of each active expert are padded to whole blocks: 1 + floor((rows - 1) / M) of them. Where rows spread over
# several multiples of M, a floor is on average (M - 1) / 2M below its argument (`floor_far`). Near the first multiple
# it rises from 0 to 1 as the probability of more than M rows does, within about 3 standard deviations of a Poisson
# distribution (`floor_near`).
_BLOCKS = (
    ("floor_far", "max(0, (expert_rows - 1) / BLOCK_SIZE_M - (BLOCK_SIZE_M - 1) / (2 * BLOCK_SIZE_M))"),
    ("floor_near", "max(0, min(1, 0.5 + (expert_rows - 1 - BLOCK_SIZE_M) / (3 * expert_rows ** 0.5)))"),
    ("block_rows", "active * (1 + (min(floor_far, floor_near) if expert_rows <= BLOCK_SIZE_M "
                   "else max(floor_far, floor_near)))"),
)

KERNEL = Kernel.of(
    name="triton.fused_moe",
    operation="fused_moe",
    meaning="grouped matrix product of experts, tuned for vLLM and SGLang",
    parameters=(
        *PARAMETERS,
        Parameter("USE_TMA", (1, 0), "SGLang's second product: the tensor memory accelerator copies the blocks"),
    ),
    derived=(
        ("gemm_m", "expert_rows"),
        ("gemm_n", "columns"),
        ("gemm_k", "depth"),
        ("products", "active"),
        *TILE,
        *_BLOCKS,
        ("blocks", "block_rows * ceil_div(columns, BLOCK_SIZE_N)"),
        ("padding", "block_rows * BLOCK_SIZE_M / routed"),
    ),
    constraints=(
        *CONSTRAINTS,
        ("USE_TMA == 0 or half == 'down' and compute_capability >= 90",
         "TMA copies blocks of the second product, on Hopper and later"),
    ),
    default={"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 8, "num_warps": 4,
             "num_stages": 3, "waves_per_eu": 0, "matrix_instr_nonkdim": 0, "kpack": 1, "USE_TMA": 0},
)
