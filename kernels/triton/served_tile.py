"""The tile that vLLM's and SGLang's Triton kernels share: tuning parameters under their names, and what follows.

Their files (`E=...json`, `N=...json`) hold one value of each of these parameters per number of tokens.
"""

from __future__ import annotations

from ..kernel import Parameter
from .text import AMD_ONLY

PARAMETERS = (
    Parameter("BLOCK_SIZE_M", (16, 32, 64, 128, 256), "rows of the result of one thread block"),
    Parameter("BLOCK_SIZE_N", (16, 32, 64, 128, 256), "columns of the result of one thread block"),
    Parameter("BLOCK_SIZE_K", (32, 64, 128, 256), "depth of one stage"),
    Parameter("GROUP_SIZE_M", (1, 4, 8, 16, 32, 64), "rows of blocks that run together, so that they share columns"),
    Parameter("num_warps", (1, 2, 4, 8), "warps of a thread block; wavefronts on AMD"),
    Parameter("num_stages", (1, 2, 3, 4, 5), "stages of loads and arithmetic that overlap; 1: none"),
    Parameter("waves_per_eu", (0, 1, 2, 4), "AMD: wavefronts that the compiler makes room for; 0: it decides"),
    Parameter("matrix_instr_nonkdim", (0, 16, 32), "AMD: rows of one matrix instruction; 0: the compiler decides"),
    Parameter("kpack", (1, 2), "AMD: matrix instructions whose operands one load fetches"),
)

_TYPES = ("bf16", "fp16", "fp8_w8a8", "int8_w8a8", "int8_w8a16", "int4_w4a16")
_INPUT = dict(zip(_TYPES, (2, 2, 1, 1, 2, 2), strict=True))  # bytes of an element of the activations
_WEIGHT = dict(zip(_TYPES, (2, 2, 1, 1, 1, 0.5), strict=True))

# The names that the analytic model reads, without those of the whole product: gemm_m, gemm_n, gemm_k, products, blocks.
#
# tensor: Hopper and the Blackwell of servers (compute capability 90 to 119) multiply 64 rows or more from shared memory
# if no operand is converted on the way (wgmma); else fragments go through registers (mma.sync).
# buffers: with fragments, the stage in use needs no buffer of its own, so there is one buffer less than stages. Only 3
# of the 9,652 tuned configurations in SGLang 0.5.23 contradict the limit below: one row, copied to three files.
# thread_registers_estimate: accumulators, twice where a stage's result is scaled before it is added; the fragments of
# one step of 16 deep; and about 40 of addresses and masks.
TILE = (
    ("block_m", "BLOCK_SIZE_M"),
    ("block_n", "BLOCK_SIZE_N"),
    ("block_k", "BLOCK_SIZE_K"),
    ("block_threads", "num_warps * warp_size"),
    ("stages", "num_stages"),
    ("split_k", "1"),
    ("input_bytes", f"{_INPUT}[dtype]"),
    ("element_bytes", f"{_WEIGHT}[dtype]"),
    ("tensor", "2 if 90 <= compute_capability and compute_capability < 120 and BLOCK_SIZE_M >= 64 "
               "and input_bytes == element_bytes else 1"),
    ("buffers", "num_stages if tensor == 2 else max(1, num_stages - 1)"),
    ("stage_bytes", "(BLOCK_SIZE_M * input_bytes + BLOCK_SIZE_N * element_bytes) * BLOCK_SIZE_K"),
    ("shared_bytes", "buffers * stage_bytes"),
    ("accumulators", "BLOCK_SIZE_M * BLOCK_SIZE_N // block_threads"),
    ("thread_registers_estimate",
     "accumulators * (2 if scale_k > 0 and input_bytes == 1 else 1) + 40 "
     "+ (0 if tensor == 2 else (BLOCK_SIZE_M + BLOCK_SIZE_N) * 16 * input_bytes // block_threads)"),
    ("load_bytes", "min(16, min(BLOCK_SIZE_M * input_bytes, BLOCK_SIZE_N * element_bytes) * BLOCK_SIZE_K "
                   "/ block_threads)"),
    ("group_m", "GROUP_SIZE_M"),
)

CONSTRAINTS = (
    ("input_bytes > 1 or BLOCK_SIZE_K >= 32", "8-bit matrix instructions are 32 deep"),
    ("shared_bytes <= local_memory", "the stages do not fit in shared memory"),
    ("accumulators <= 256", "the accumulators alone would fill all registers"),
    ("instruction_set == 'ptx' or num_stages <= 2", "AMD's units have too little shared memory for a third stage"),
    ("num_warps >= 4 or instruction_set != 'ptx'", "the projects' tuners give NVIDIA's units 4 warps or more"),
    ("scale_k == 0 or input_bytes > 1 or BLOCK_SIZE_K == gcd(scale_k, 256)",
     "a stage is as deep as a block of scales: the kernels read one scale per stage, and vLLM's tuner splits no block"),
    *((f"instruction_set != 'ptx' or {name} == {value}", f"{name} is for AMD's GPUs")
      for name, value in AMD_ONLY.items()),
    ("matrix_instr_nonkdim <= BLOCK_SIZE_M and matrix_instr_nonkdim <= BLOCK_SIZE_N",
     "the matrix instruction must fit in the block"),
)
