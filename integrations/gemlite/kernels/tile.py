"""The tile that gemlite's kernels share: parameters under its names, derived quantities, and its tuner's rules.

`word_bytes` times a block's elements overestimates the packed weights in shared memory, as gemlite's tuner does. It
lowers the stages of a configuration until they fit, down to one; so some numbers of stages occur only where more do
not fit. Values that are the same in every configuration (GROUP_SIZE_M 8, dot_prod_mode 0, num_ctas 1, on AMD
matrix_instr_nonkdim 16) are no parameters.
"""

from __future__ import annotations

from seqtune.kernels.kernel import Parameter

SIZES = (32, 64, 128, 256, 512)
BLOCK_M = Parameter("BLOCK_SIZE_M", (16, 32, 64, 128, 256), "rows of the result of one thread block")
BLOCK_N = Parameter("BLOCK_SIZE_N", SIZES, "columns of the result of one thread block")
BLOCK_K = Parameter("BLOCK_SIZE_K", SIZES, "depth of one stage")
LOAD_ORDER = Parameter("A_load_order", (0, 2), "activations are loaded 0: before, 2: after the weights are unpacked")
VECTOR_LOAD_ORDER = Parameter("A_load_order", (0, 1), "activations are loaded 0: before, 1: after the weights")
WARPS = Parameter("num_warps", (4, 8), "warps of a thread block; wavefronts on AMD")
STAGES = Parameter("num_stages", (1, 2, 3, 4, 5), "stages of loads and arithmetic that overlap; 1: none")
WAVES = Parameter("waves_per_eu", (0, 2, 4), "AMD: wavefronts that the compiler makes room for; 0: it decides")

MORE_SHARED = 131072  # bytes of a block's shared memory from which gemlite tries five stages: A100, H100, B200

# The names that the analytic model reads. Packed weights are unpacked in registers, so operands come from there.
TILE = (
    ("gemm_m", "m"), ("gemm_n", "n"), ("gemm_k", "k"), ("products", "1"),
    ("input_bytes", "input_bits // 8"),
    ("element_bytes", "weight_bits / 8"),
    ("amd", "1 if instruction_set == 'amdgcn' else 0"),
    ("block_n", "BLOCK_SIZE_N"), ("block_k", "BLOCK_SIZE_K"),
    ("block_threads", "num_warps * warp_size"),
    ("stages", "num_stages"),
    ("group_m", "8"),
)
MATRIX_TILE = (
    *TILE,
    ("block_m", "BLOCK_SIZE_M"),
    ("tensor", "2 if 90 <= compute_capability and compute_capability < 120 and BLOCK_SIZE_M >= 64 and packed == 1 "
               "and input_bits == weight_bits else 1"),
    ("stage_bytes", "BLOCK_SIZE_K * (BLOCK_SIZE_M * input_bytes + BLOCK_SIZE_N * word_bytes "
                    "+ (BLOCK_SIZE_N * input_bytes if packed > 1 else 0))"),
    ("shared_bytes", "num_stages * stage_bytes"),
    ("accumulators", "BLOCK_SIZE_M * BLOCK_SIZE_N // block_threads"),
    ("thread_registers_estimate", "accumulators + 40 + (0 if tensor == 2 else "
                                  "(BLOCK_SIZE_M + BLOCK_SIZE_N) * 16 * input_bytes // block_threads)"),
    ("load_bytes", "min(16, min(BLOCK_SIZE_M * input_bytes, BLOCK_SIZE_N * element_bytes) * BLOCK_SIZE_K "
                   "/ block_threads)"),
)
VECTOR_TILE = (
    *TILE,
    ("block_m", "1"),
    ("tensor", "0"),
    ("shared_bytes", "0"),  # operands go straight to registers
    ("thread_registers_estimate", "BLOCK_SIZE_N * BLOCK_SIZE_K // block_threads + 40"),
    ("load_bytes", "min(16, BLOCK_SIZE_N * BLOCK_SIZE_K * element_bytes / block_threads)"),
)

SOLVES = (
    ("batch == 1 and shuffled == 'no' and bias == 'no'", "gemlite adds a bias afterwards, and has no batches"),
    ("scale_n == 1", "its scales are for one output each"),
    ("packed == 1 or dtype in ('fp16', 'bf16')", "packed weights are for activations of 16 bits"),
)
BOTH = (
    ("amd == 1 or waves_per_eu == 0", "waves_per_eu is for AMD's GPUs"),
    ("amd == 0 or A_load_order == 0", "gemlite keeps this order on AMD's GPUs"),
    ("BLOCK_SIZE_N < 2 * n", "the block is much wider than the result"),
    ("BLOCK_SIZE_K < 2 * k", "the block is much deeper than the product"),
    ("BLOCK_SIZE_K <= scale_k", "a stage has one scale per output"),
)
MATRIX = (
    ("BLOCK_SIZE_M >= (16 if m <= 32 else 32 if m <= 64 else 64)", "the block has too few of the rows"),
    ("BLOCK_SIZE_M <= (16 if m <= 16 else 32 if m <= 32 else 64 if m <= 64 else 128 if m <= 128 else 256)",
     "the block is higher than the result"),
    *BOTH,
    ("num_stages == 1 or shared_bytes <= local_memory", "the stages do not fit in shared memory"),
    ("amd == 0 or num_stages <= 2", "gemlite tries at most two stages on AMD's GPUs"),
    ("amd == 1 or packed == 1 or num_stages <= 4", "gemlite tries at most four stages with packed weights"),
    (f"num_stages < 5 or local_memory > {MORE_SHARED}", "gemlite tries five stages where a block can have 128 KiB"),
    ("num_stages != 3 or 4 * stage_bytes > local_memory", "three stages are tried only where four do not fit"),
    ("amd == 1 or packed > 1 or num_stages > 1 or 2 * stage_bytes > local_memory",
     "one stage is tried with unpacked weights only where two do not fit"),
)
