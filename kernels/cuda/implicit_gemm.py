"""cuda.implicit_gemm: the implicit GEMM of opencl.implicit_gemm on NVIDIA GPUs, with the values that suit them."""

from __future__ import annotations

from ..c_text.block import text
from ..c_text.implicit_gemm import INCLUDES, gathered_block, gathered_call
from ..c_text.prelude import program
from ..devices.device import Device
from ..kernel import Configuration, Kernel, Parameter
from ..launches.call import Call
from ..launches.indexing import offsets_fit
from ..problem import Problem

KERNEL = Kernel.of(
    name="cuda.implicit_gemm",
    operation="conv2d",
    meaning="convolution as a matrix product of gathered pixels of one image, through shared memory or not",
    parameters=(
        Parameter("local_a", (0, 1), "the block copies pixels into shared memory"),
        Parameter("local_b", (0, 1), "the block copies filters into shared memory"),
        Parameter("vector", (2, 4), "output channels in one vector variable"),
        Parameter("vectors_n", (1, 2, 4), "vectors of output channels of one thread"),
        Parameter("tile_m", (1, 2, 4, 7, 8, 16), "pixels of one thread"),
        Parameter("threads_m", (4, 8, 16, 32), "threads of a block along the pixels"),
        Parameter("threads_n", (1, 2, 4, 8, 16), "threads of a block along the output channels"),
        Parameter("depth", (0, 4, 8, 16), "channels of a tap in shared memory at a time; 0: none"),
        Parameter("unroll", (1, 2, 4), "channels of one pass of the innermost loop"),
        Parameter("order", ("pixels", "channels"), "what neighbouring blocks differ in"),
    ),
    derived=(
        ("block", "vector * vectors_n"),
        ("gemm_m", "n * out_h * out_w"),
        ("gemm_n", "k_per_group"),
        ("gemm_k", "c_per_group * r * s"),
        ("products", "groups"),
        ("block_m", "tile_m * threads_m"),
        ("block_n", "block * threads_n"),
        ("block_k", "max(depth, unroll)"),
        ("block_threads", "threads_m * threads_n"),
        ("stages", "1"),
        ("split_k", "1"),
        ("spots", "n * ceil_div(out_h * out_w, block_m)"),
        ("panels", "groups * ceil_div(k_per_group, block_n)"),
        ("blocks", "spots * panels"),
        ("pitch", "block_m + (1 if layout == 'NHWC' else 0)"),
        ("place_end", "round_up(local_a * 4 * (depth * pitch + block_m), 64 if local_b else 1)"),
        ("shared_bytes", "place_end + local_b * 4 * depth * block_n"),
        ("thread_registers_estimate", "tile_m * block + block + (2 if local_a else 5) * tile_m + 40"),
        ("element_bytes", "4"),
        ("tensor", "0"),
        ("load_bytes", "4"),
        ("group_m", "1"),
        ("m_waste", "ceil_div(out_h * out_w, block_m) * block_m / (out_h * out_w)"),
        ("n_waste", "ceil_div(k_per_group, block_n) * block_n / k_per_group"),
        ("blocks_per_unit", "blocks / compute_units"),
        ("loads_per_fma", "(tile_m + block) / (tile_m * block)"),
    ),
    solves=(
        ("direction == 'forward'", "only the forward direction"),
        ("dtype == 'fp32'", "only fp32"),
        ("k_per_group >= 2", "it gathers for at least 2 output channels"),
        *offsets_fit("conv2d"),
    ),
    constraints=(
        ("block_n <= k_per_group", "the block must fit in the output channels of a group"),
        ("block_m <= out_h * out_w", "the block must fit in the pixels of an image"),
        ("vector == 4 or vectors_n == 1", "wide vectors come first"),
        ("tile_m * block >= 4", "too few accumulators share a load"),
        ("block_threads <= max_work_group", "the device has smaller work-groups"),
        ("(panels if order == 'pixels' else spots) <= 65535",
         "a launch has 65,535 blocks at most along its second axis"),
        ("block_threads >= 32 and block_threads <= 512", "a block has 1 to 16 warps"),
        ("(depth > 0) == (local_a + local_b > 0)",
         "a depth is given if and only if something is copied into shared memory"),
        ("depth == 0 or c_per_group % depth == 0", "the depth must divide the channels"),
        ("c_per_group % unroll == 0", "unrolled channels must divide the channels"),
        ("unroll == 1 or depth == 0", "compilers unroll loops of known length themselves"),
        ("shared_bytes <= min(local_memory, 49152)", "arrays in shared memory, which are static, have at most 48 KiB"),
        ("thread_registers_estimate <= min(vector_registers, unit_registers // block_threads)",
         "the accumulators do not fit in the registers"),
    ),
    default={"local_a": 1, "local_b": 1, "vector": 4, "vectors_n": 1, "tile_m": 4, "threads_m": 16, "threads_n": 4,
             "depth": 8, "unroll": 1, "order": "pixels"},
    implementation="seqtune.kernels.cuda.implicit_gemm:IMPLEMENTATION",
)


class CudaImplicitGemm:
    """Runs cuda.implicit_gemm; each source works for all shapes of one layout and epilogue, padded or not."""

    includes = INCLUDES

    def call(self, problem: Problem, device: Device, configuration: Configuration) -> Call:
        """The blocks of pixels and of output channels."""
        number = configuration.number
        block = gathered_block(problem, configuration, number("threads_m"), number("threads_n"), number("depth"))
        return gathered_call(problem, program(device, block.vector, text(block)), block,
                             configuration["order"] == "channels")


IMPLEMENTATION = CudaImplicitGemm()
