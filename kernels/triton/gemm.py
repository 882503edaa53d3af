"""triton.gemm: matrix product in blocks, on NVIDIA's tensor cores from sm_80 and on AMD's matrix cores.

`shared_bytes` is what Triton 3.9's compiler allocates, found by compiling samples: a ring of blocks of A and one of B.
mma.sync reads its operands from registers, so its rings are one block shorter than the stages; wgmma reads them from
shared memory while the next ones arrive. fp32 products are three of tf32: wgmma then reads A from registers and splits
B into a further block. A block has a ring only if a thread can copy at least 4 bytes of it at once.
"""

from __future__ import annotations

from ..devices.device import Device
from ..kernel import Configuration, Kernel, Parameter, Setting
from ..launches.call import Call
from ..launches.entry_arguments import entry_arguments
from ..launches.implementation import KernelSource
from ..launches.indexing import offsets_fit
from ..problem import Problem
from .text import flags, grid_step, text_of

COMBINED = 1024  # elements of C that a block adds up over the slices of k

KERNEL = Kernel.of(
    name="triton.gemm",
    operation="gemm",
    meaning="matrix product in blocks on tensor cores, in Triton",
    parameters=(
        Parameter("BLOCK_M", (16, 32, 64, 128, 256), "rows of a block of C"),
        Parameter("BLOCK_N", (16, 32, 64, 128, 256), "columns of a block of C"),
        Parameter("BLOCK_K", (16, 32, 64, 128), "depth of one stage"),
        Parameter("GROUP_M", (1, 4, 8, 16), "rows of blocks that run together, for the second-level cache"),
        Parameter("SPLIT_K", (1, 2, 4, 8, 16), "slices of k, each with programs of its own"),
        Parameter("num_warps", (2, 4, 8), "warps of a block"),
        Parameter("num_stages", (2, 3, 4, 5, 6), "stages of the pipeline"),
        Parameter("waves_per_eu", (0, 2), "AMD: waves per SIMD that registers must suffice for; 0: no demand"),
        Parameter("matrix_instr_nonkdim", (0, 16, 32), "AMD: rows and columns of a matrix instruction; 0: on NVIDIA"),
        Parameter("kpack", (1, 2), "AMD: matrix instructions whose operands are loaded together"),
    ),
    derived=(
        ("element_bytes", "4 if dtype == 'fp32' else 2"),
        ("amd", "1 if compute_capability == 0 else 0"),
        ("gemm_m", "m"), ("gemm_n", "n"), ("gemm_k", "k"), ("products", "1"),
        ("a_step", "element_bytes * (16 if (m if trans_a == 'yes' and m > 1 else k) % 16 == 0 else 1)"),
        ("b_step", "element_bytes * (16 if (n if trans_b == 'no' and n > 1 else k) % 16 == 0 else 1)"),
        ("block_m", "BLOCK_M"), ("block_n", "BLOCK_N"), ("block_k", "BLOCK_K"),
        ("block_threads", "num_warps * warp_size"),
        ("stages", "num_stages"), ("split_k", "SPLIT_K"), ("group_m", "GROUP_M"),
        ("blocks", "ceil_div(m, BLOCK_M) * ceil_div(n, BLOCK_N) * SPLIT_K"),
        ("tensor", "2 if compute_capability == 90 and BLOCK_M >= 64 and num_warps % 4 == 0 else 1"),
        ("a_bytes", "BLOCK_M * BLOCK_K * element_bytes"),
        ("b_bytes", "BLOCK_N * BLOCK_K * element_bytes"),
        ("c_bytes", "BLOCK_M * BLOCK_N * (4 if SPLIT_K > 1 else element_bytes)"),
        ("thirds", "1 if tensor == 2 and dtype == 'fp32' else 0"),
        ("ring", "num_stages if tensor == 2 else num_stages - 1"),
        ("ring_a", "ring - thirds if a_step >= 4 else 1"),
        ("ring_b", "ring + thirds if b_step >= 4 else 1"),
        ("shared_bytes", "max(a_bytes, b_bytes) if amd == 1 and max(a_step, b_step) < 4 "
                         "else a_bytes * ring_a + b_bytes * ring_b"),
        ("load_bytes", "min(16, a_step, b_step, min(a_bytes, b_bytes) // block_threads)"),
        ("accumulators", "BLOCK_M * BLOCK_N // block_threads"),
        ("thread_registers_estimate",
         "min(255, accumulators + 40 + (0 if tensor == 2 else (a_bytes + b_bytes) // 4 * 16 // BLOCK_K "
         "// block_threads))"),
    ),
    solves=(
        ("dtype in ('fp32', 'fp16', 'bf16')", "only fp32, fp16 and bf16"),
        ("compute_capability >= 80 or architecture in ('gfx90a', 'gfx942')",
         "it needs a GPU from sm_80, gfx90a or gfx942"),
        ("compute_capability < 100 or compute_capability >= 120",
         "its formula of shared memory does not know the tensor memory of sm_100"),
        *offsets_fit("gemm"),
    ),
    constraints=(
        ("shared_bytes <= local_memory", "the block needs more shared memory than a block can have"),
        ("block_threads <= max_work_group", "the device has smaller blocks of threads"),
        ("amd == 0 or BLOCK_K * element_bytes >= 64", "AMD's pipeline needs 64 bytes of each row"),
        ("a_step < 4 or a_bytes >= 4 * block_threads", "each thread must copy at least 4 bytes of A"),
        ("b_step < 4 or b_bytes >= 4 * block_threads", "each thread must copy at least 4 bytes of B"),
        ("accumulators >= 2", "threads would be idle"),
        ("accumulators <= (256 if amd == 1 else 128)", "the accumulators would not fit in registers"),
        ("thirds == 0 or BLOCK_M >= 16 * num_warps", "wgmma splits fp32 numbers differently where warps share rows"),
        ("amd == 1 or shared_bytes >= c_bytes",
         "C passes through shared memory on its way out and would need more of it than the stages"),
        ("SPLIT_K == 1 or SPLIT_K * BLOCK_K * 2 <= k", "a slice needs two stages of k"),
        ("SPLIT_K == 1 or ceil_div(m, BLOCK_M) * ceil_div(n, BLOCK_N) < 2 * compute_units",
         "there are blocks enough without slices"),
        ("num_stages <= max(2, ceil_div(k, BLOCK_K * SPLIT_K) + 1)", "k has fewer steps than stages"),
        ("BLOCK_M == 16 or BLOCK_M < 2 * m", "the block is much higher than C"),
        ("BLOCK_N == 16 or BLOCK_N < 2 * n", "the block is much wider than C"),
        ("GROUP_M == 1 or GROUP_M * BLOCK_M < m + BLOCK_M", "the group has more rows of blocks than C"),
        ("amd == 1 or waves_per_eu == 0", "waves_per_eu is for AMD's GPUs"),
        ("amd == 1 if matrix_instr_nonkdim > 0 else amd == 0",
         "matrix_instr_nonkdim is set on AMD's GPUs, and only there"),
        ("matrix_instr_nonkdim <= min(BLOCK_M, BLOCK_N)", "the matrix instruction is larger than the block"),
        ("amd == 1 or kpack == 1", "kpack is for AMD's GPUs"),
    ),
    default={"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8, "SPLIT_K": 1, "num_warps": 4, "num_stages": 3,
             "waves_per_eu": 0, "matrix_instr_nonkdim": 16, "kpack": 1},
    implementation="seqtune.kernels.triton.gemm:IMPLEMENTATION",
)


class TritonGemm:
    """Runs triton.gemm; each source works for all shapes of one dtype, transposition and epilogue."""

    includes = "the product and its epilogue; with SPLIT_K the sum of the slices; B as it is, not packed"

    def call(self, problem: Problem, device: Device, configuration: Configuration) -> Call:
        """One program for each block of C and slice of k; with several slices, further programs add them up."""
        number = configuration.number
        m, n, k, slices = problem.size("m"), problem.size("n"), problem.size("k"), number("SPLIT_K")
        threads = number("num_warps") * int(device.names().get("warp_size", 32))
        constants: dict[str, Setting] = {
            **dict(configuration.settings), "COMBINED": COMBINED,
            "TRANS_A": int(problem["trans_a"] == "yes"), "TRANS_B": int(problem["trans_b"] == "yes"),
            "EVEN_K": int(k % (number("BLOCK_K") * slices) == 0), "BIAS": int(problem["bias"] == "yes"),
            "RELU": int(problem["activation"] == "relu"), "PRECISION": precision(device)}
        source = KernelSource(text_of("product"), ("product", *flags(constants, device)))
        arguments = entry_arguments(problem, (m, n, k), workspace=slices * m * n if slices > 1 else 0)
        blocks = -(-m // number("BLOCK_M")) * -(-n // number("BLOCK_N"))
        steps = [grid_step("product", arguments, threads, blocks, slices)]
        if slices > 1:
            steps.append(grid_step("combine", arguments, threads, -(-m * n // COMBINED)))
        return Call(source, tuple(steps))


def precision(device: Device) -> str:
    """The arithmetic of fp32 products: three tf32 products on NVIDIA (1e-6 of the result), AMD's own fp32."""
    return "ieee" if device.names().get("compute_capability", 0) == 0 else "tf32x3"


IMPLEMENTATION = TritonGemm()
