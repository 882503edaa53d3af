"""opencl.direct: direct convolution in register tiles, on any OpenCL device.

A 1x1 convolution without padding and strides is a matrix product: its pixels are one long row, the rows of A, in the
tile of opencl.gemm.
"""

from __future__ import annotations

from ..c_text.direct import INCLUDES, TEXT_CONSTRAINTS, direct_call, direct_tile
from ..cache_lines import PADDED, conv2d_lines
from ..devices.device import Device
from ..kernel import Configuration, Kernel, Parameter
from ..launches.call import Call
from ..launches.indexing import offsets_fit
from ..problem import Problem
from .register_tile import PAD_ITEMS, tile_source

KERNEL = Kernel.of(
    name="opencl.direct",
    operation="conv2d",
    meaning="direct convolution in register tiles; where filters are 1x1, unpadded and unstrided, it is the matrix "
            "product of opencl.gemm, with the pixels as rows",
    parameters=(
        Parameter("vector", (1, 4, 8, 16), "output channels in one vector variable"),
        Parameter("vectors_k", (1, 2, 4), "vectors of output channels of one work-item"),
        Parameter("tile_w", (1, 2, 3, 4, 6, 7, 8, 10, 12, 14, 16, 28), "pixels of one work-item along a row"),
        Parameter("tile_h", (1, 2, 4), "rows of one work-item"),
        Parameter("border", ("copy", "peel"), "pad by a copy of the input, or leave out the taps outside it"),
        Parameter("inner", ("channels", "row"), "innermost in the sum: the channels of a tap, or the taps of a row"),
        Parameter("chunk", (1, 4, 0), "tiles that a work-item computes one after the other; 0: all of an image"),
        Parameter("piece", (0, 32), "input channels that all tiles of a chunk take before the next; 0: all"),
        Parameter("order", ("pixels", "channels"), "what neighbouring work-items differ in: pixels or filter blocks"),
        Parameter("work_group", (1, 32, 64, 128, 256), "work-items of a group, along the axis that order names"),
    ),
    derived=(
        ("block", "vector * vectors_k"),
        ("registers", "ceil_div(vector, vector_floats) * vectors_k * tile_w * tile_h"),
        ("registers_used", "registers + ceil_div(vector, vector_floats) * vectors_k + 1"),
        ("w_waste", "ceil_div(row_w, tile_w) * tile_w / row_w"),
        ("h_waste", "ceil_div(rows, tile_h) * tile_h / rows"),
        ("k_waste", "ceil_div(k_per_group, block) * block / k_per_group"),
        ("tiles", "ceil_div(row_w, tile_w) * ceil_div(rows, tile_h)"),
        ("chunk_tiles", "chunk if chunk > 0 else tiles"),
        ("weights_bytes", "(piece if piece > 0 else c_per_group) * r * s * block * 4"),
        ("spots", "ceil_div(n * tiles, chunk_tiles)"),
        ("work_items", "spots * groups * ceil_div(k_per_group, block)"),
        ("items_across", "spots if order == 'pixels' else groups * ceil_div(k_per_group, block)"),
        ("work_groups", "work_items // items_across * ceil_div(items_across, work_group)"),
        ("groups_per_unit", "work_groups / compute_units"),
        ("idle", "ceil_div(work_groups, compute_units) * compute_units / work_groups"),
        ("loads_per_fma", "(tile_w * tile_h + vectors_k) / (tile_w * tile_h * vectors_k)"),
        ("item_fmas", "chunk_tiles * tile_w * tile_h * block * c_per_group * r * s * work_group"),
        *conv2d_lines("block", f"(h * w if border == 'peel' else {PADDED})"),
    ),
    solves=(
        ("direction == 'forward'", "only the forward direction"),
        ("dtype == 'fp32'", "only fp32"),
        *offsets_fit("conv2d"),
    ),
    constraints=(
        ("vector > 1 or k_per_group < 4", "single floats are for fewer than 4 output channels"),
        ("block <= k_per_group", "the block must fit in the output channels of a group"),
        ("vectors_k == 1 or vector > 1", "single floats come one at a time"),
        ("tile_w <= row_w", "the tile must fit in a row"),
        ("tile_h <= rows", "the tile must fit in the rows"),
        ("vector * 2 >= vector_floats or vector * 2 > k_per_group or vector == 1",
         "vectors of a quarter of the register leave it empty"),
        ("tile_h <= tile_w or tile_w * 2 > row_w", "tall tiles share no more than flat ones"),
        ("registers >= (vector_registers // 4 if threads > 0 else 4)"
         " or tile_w * tile_h * 2 > row_w * rows", "a few accumulators wait for each other"),
        ("(registers_used - vector_registers) * 8 <= vector_registers", "it only spills registers"),
        *TEXT_CONSTRAINTS,
        ("chunk == 1 or chunk * 2 <= n * tiles", "a chunk this long is of all tiles"),
        ("chunk == 1 or work_items >= compute_units", "chunks this long leave threads idle"),
        ("chunk == 1 or threads > 0", "a GPU needs all the work-items it can get"),
        ("piece == 0 or chunk != 1 and inner == 'channels'",
         "pieces are for tiles that follow each other"),
        ("piece == 0 or c_per_group * r * s * block * 8 > l2_bytes",
         "the weights of a block fit in the second-level cache"),
        ("piece == 0 or c_per_group % piece == 0 and c_per_group > piece",
         "pieces must divide the channels"),
        ("work_group <= max_work_group", "the device has smaller work-groups"),
        ("work_group == 1 if threads > 0 else work_group >= 32",
         "a CPU runs a work-group on one thread, a GPU fills a warp with it"),
    ),
    default={"vector": 16, "vectors_k": 2, "tile_w": 7, "tile_h": 1, "border": "peel", "inner": "channels",
             "chunk": 4, "piece": 0, "order": "pixels", "work_group": 1},
    version=2,
    implementation="seqtune.kernels.opencl.direct:IMPLEMENTATION",
)


class OpenCLDirect:
    """Runs opencl.direct; each source works for all shapes of one layout, horizontal stride and epilogue."""

    includes = INCLUDES

    def call(self, problem: Problem, device: Device, configuration: Configuration) -> Call:
        """The padding copy where there is one, and the tiles."""
        most = PAD_ITEMS * device.compute_units
        return direct_call(problem, tile_source(direct_tile(problem, configuration)), configuration,
                           chunk=configuration.number("chunk"), piece=configuration.number("piece"),
                           pad=lambda rows: (min(rows, most), 1))


IMPLEMENTATION = OpenCLDirect()
