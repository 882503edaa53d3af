"""opencl.implicit_gemm: a convolution as the matrix product of gathered pixels and filters, local memory or not."""

from __future__ import annotations

from functools import lru_cache

from ..c_text.block import Block, text
from ..c_text.implicit_gemm import INCLUDES, gathered_block, gathered_call
from ..c_text.text import OPTIONS, head
from ..cache_lines import conv2d_lines
from ..devices.device import Device
from ..kernel import Configuration, Kernel, Parameter
from ..launches.call import Call
from ..launches.implementation import KernelSource
from ..launches.indexing import offsets_fit
from ..problem import Problem

KERNEL = Kernel.of(
    name="opencl.implicit_gemm",
    operation="conv2d",
    meaning="convolution as a matrix product of gathered pixels, through local memory or not",
    parameters=(
        Parameter("local_a", (0, 1), "the work-group copies pixels into local memory"),
        Parameter("local_b", (0, 1), "the work-group copies filters into local memory"),
        Parameter("vector", (4, 8, 16), "output channels in one vector variable"),
        Parameter("vectors_n", (1, 2, 4), "vectors of output channels of one work-item"),
        Parameter("tile_m", (1, 2, 3, 4, 6, 7, 8, 10, 12, 14, 16, 24, 28), "pixels of one work-item"),
        Parameter("group_m", (1, 4, 8, 16, 32), "work-items of a group along the pixels"),
        Parameter("group_n", (1, 4, 8, 16), "work-items of a group along the output channels"),
        Parameter("block_k", (0, 8, 16), "channels of a tap in local memory at a time; 0: none"),
        Parameter("unroll", (1, 2, 4), "channels of one pass of the innermost loop"),
        Parameter("order", ("pixels", "channels"), "what neighbouring work-groups differ in"),
    ),
    derived=(
        ("pixels", "out_h * out_w"),
        ("block_m", "tile_m * group_m"),
        ("block_n", "vector * vectors_n * group_n"),
        ("items", "group_m * group_n"),
        ("registers", "ceil_div(vector, vector_floats) * vectors_n * tile_m"),
        ("m_waste", "ceil_div(pixels, block_m) * block_m / pixels"),
        ("n_waste", "ceil_div(k_per_group, block_n) * block_n / k_per_group"),
        ("local_floats", "local_a * (block_k * (block_m + 1) + block_m) + local_b * block_k * block_n"),
        ("work_groups", "n * groups * ceil_div(pixels, block_m) * ceil_div(k_per_group, block_n)"),
        ("groups_per_unit", "work_groups / compute_units"),
        ("idle", "ceil_div(work_groups, compute_units) * compute_units / work_groups"),
        ("item_fmas", "block_m * block_n * c_per_group * r * s"),
        ("loads_per_fma", "(tile_m + vectors_n) / (tile_m * vectors_n)"),
        ("panel_bytes", "c_per_group * r * s * block_n * 4"),
        *conv2d_lines("block_n", "h * w", "tile_m"),
    ),
    solves=(
        ("direction == 'forward'", "only the forward direction"),
        ("dtype == 'fp32'", "only fp32"),
        ("k_per_group >= 4", "it gathers for at least 4 output channels"),
        *offsets_fit("conv2d"),
    ),
    constraints=(
        ("block_n <= k_per_group", "the block must fit in the output channels of a group"),
        ("block_m <= pixels", "the block must fit in the pixels of an image"),
        ("vector <= vector_floats and vector * 2 >= vector_floats or vector * 2 > k_per_group",
         "vectors are a register or half of one"),
        ("registers * (4 if threads > 0 else 16) >= vector_registers or tile_m * 2 > pixels",
         "a few accumulators wait for each other"),
        ("registers + vectors_n < vector_registers if threads > 0 else registers * 2 <= vector_registers",
         "so many accumulators only spill"),
        ("items <= max_work_group", "the device has smaller work-groups"),
        ("items <= 4 if threads > 0 else items >= 32 and items <= 256",
         "a CPU runs a work-group on one thread, a GPU fills some warps with it"),
        ("threads == 0 or items == (4 if local_a + local_b > 0 else 1)",
         "a CPU's work-items have nothing to share but local memory"),
        ("threads == 0 or local_a + local_b == 0 or order == 'pixels' and vector * 2 > vector_floats",
         "on a CPU local memory is slow enough to try it one way only"),
        ("(block_k > 0) == (local_a + local_b > 0)", "a block of channels is what local memory holds"),
        ("block_k == 0 or c_per_group % block_k == 0", "blocks must divide the channels"),
        ("c_per_group % unroll == 0", "unrolled channels must divide the channels"),
        ("unroll == 1 or block_k == 0", "compilers unroll loops of known length themselves"),
        ("local_floats * 4 <= local_memory", "the device has less local memory"),
    ),
    default={"local_a": 0, "local_b": 0, "vector": 16, "vectors_n": 2, "tile_m": 8, "group_m": 1, "group_n": 1,
             "block_k": 0, "unroll": 1, "order": "pixels"},
    implementation="seqtune.kernels.opencl.implicit_gemm:IMPLEMENTATION",
)


class OpenCLImplicitGemm:
    """Runs opencl.implicit_gemm; each source works for all shapes of one layout and epilogue, padded or not."""

    includes = INCLUDES

    def call(self, problem: Problem, device: Device, configuration: Configuration) -> Call:
        """The blocks of pixels and of output channels."""
        number = configuration.number
        block = gathered_block(problem, configuration, number("group_m"), number("group_n"), number("block_k"))
        return gathered_call(problem, _source(block), block, configuration["order"] == "channels")


@lru_cache(maxsize=512)  # configurations that differ in order alone are often consecutive
def _source(block: Block) -> KernelSource:
    return KernelSource(head(block.vector) + text(block), OPTIONS)


IMPLEMENTATION = OpenCLImplicitGemm()
