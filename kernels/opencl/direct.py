"""opencl.direct: direct convolution in register tiles, on any OpenCL device.

A 1x1 convolution without padding and strides is a matrix product: its pixels are one long row, the rows of A, in the
tile of opencl.gemm.
"""

from __future__ import annotations

import numpy as np

from ..cache_lines import PADDED, conv2d_lines
from ..devices.device import Device
from ..kernel import Configuration, Kernel, Parameter
from ..launches.implementation import Array, KernelSource, Launch
from ..problem import Problem
from .source.tile import OpenCLTile, launch, source


class OpenCLDirect:
    """Runs opencl.direct; each source works for all shapes of one layout, horizontal stride and epilogue."""

    includes = "zero-padded copy of the input where the border is a copy; filters packed before, once"

    def tile(self, problem: Problem, configuration: Configuration) -> OpenCLTile:
        """The numbers that determine the text."""
        nhwc = problem["layout"] == "NHWC"
        number = configuration.number
        return OpenCLTile(number("vector"), number("vectors_k"), number("tile_w"), number("tile_h"),
                    0 if nhwc else problem.size("stride_w"), nhwc,
                    problem["bias"] == "yes", problem["activation"] == "relu", configuration["border"] == "peel")

    def source(self, problem: Problem, device: Device, configuration: Configuration) -> KernelSource:
        """The text of the tile."""
        return source(self.tile(problem, configuration))

    def launch(self, problem: Problem, device: Device, configuration: Configuration) -> Launch:
        """The launch with the strides of the (padded) input and the output, and the order of the sum."""
        size = problem.size
        n, c, h, w, k = size("n"), size("c"), size("h"), size("w"), size("k")
        cg, kg, out_h, out_w, r, s = (size(name) for name in ("c_per_group", "k_per_group", "out_h", "out_w", "r", "s"))
        pad_h, pad_w, stride_h, stride_w = size("pad_h"), size("pad_w"), size("stride_h"), size("stride_w")
        nhwc, peeled = problem["layout"] == "NHWC", configuration["border"] == "peel"
        high, wide = (h, w) if peeled else (h + 2 * pad_h, w + 2 * pad_w)  # as the tile reads it
        pixel, line, channel = (c, wide * c, 1) if nhwc else (1, wide, high * wide)
        y_pixel, y_line, y_channel = (k, out_w * k, 1) if nhwc else (1, out_w, out_h * out_w)
        tap_h, tap_w = size("dilation_h") * line, size("dilation_w") * pixel
        if configuration["inner"] == "channels":
            axes, steps = (r, s, cg), (tap_h, tap_w, channel)
        else:  # a row of taps; with channels last, those of all channels are neighbours
            axes, steps = ((1, r, s * c), (0, tap_h, 1)) if nhwc else ((cg, r, s), (channel, tap_h, tap_w))
        sizes = {
            **dict(zip(("outer", "middle", "inner"), axes, strict=True)),
            **dict(zip(("x_outer", "x_middle", "x_inner"), steps, strict=True)),
            "piece": configuration.number("piece") or axes[2],
            "x_image": c * high * wide, "x_group": cg * channel,
            "x_row": stride_h * line, "x_pixel": stride_w * pixel,
            "x_origin": pad_h * line + pad_w * pixel if peeled else 0,
            "y_image": k * out_h * out_w, "y_group": kg * y_channel, "y_channel": y_channel,
            "y_row": y_line, "y_pixel": y_pixel,
            "images": n, "groups": size("groups"), "rows": size("rows"), "columns": size("row_w"), "outputs": kg,
            "padded": int(not peeled and (pad_h > 0 or pad_w > 0)), "planes": n if nhwc else n * c,
            "padded_height": high, "row_floats": w * pixel, "margin": pad_w * pixel,
            "height": h, "width": w, "above": pad_h, "before": pad_w, "stride_h": stride_h, "stride_w": stride_w,
            "dilation_h": size("dilation_h"), "dilation_w": size("dilation_w"),
        }
        return launch(self.tile(problem, configuration), device, configuration["order"] == "pixels",
                      configuration.number("chunk"), configuration.number("work_group"), sizes)

    def packing(self, problem: Problem, configuration: Configuration) -> tuple[int, int, bool, int]:
        """The values (groups, output channels of a block, are rows of taps innermost?, input channels of a piece)."""
        rows = configuration["inner"] == "row" and problem["layout"] == "NCHW"
        return (problem.size("groups"), self.tile(problem, configuration).block, rows,
                configuration.number("piece") or problem.size("c_per_group"))

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
        """Copy the filter into [group][block][piece of the inner axis][outer][middle][inner][output channel].

        The last block overlaps the one before.
        """
        groups, block, rows, piece = self.packing(problem, configuration)
        kg, cg = problem.size("k_per_group"), problem.size("c_per_group")
        firsts = np.minimum(np.arange(-(-kg // block)) * block, kg - block)
        chosen = weights.reshape(groups, kg, cg, *weights.shape[2:])[:, firsts[:, None] + np.arange(block)]
        # from (group, block, k, c, r, s)
        if rows:
            return np.ascontiguousarray(chosen.transpose(0, 1, 3, 4, 5, 2))
        pieces = chosen.reshape(*chosen.shape[:3], -1, piece, *chosen.shape[4:])
        return np.ascontiguousarray(pieces.transpose(0, 1, 3, 5, 6, 4, 2))


IMPLEMENTATION = OpenCLDirect()

# The borders and sums that the text of a tile can compute, on every backend that shares it.
TEXT_CONSTRAINTS = (
    ("border == 'copy' or pad_h + pad_w > 0", "without padding there is nothing to peel"),
    ("border == 'copy' or tile_h == 1", "it peels a row at a time"),
    ("border == 'copy' or pad_w <= stride_w and (tile_w - 1) * stride_w <= w"
     " and (out_w - 2) * stride_w - pad_w + (s - 1) * dilation_w < w",
     "it peels one pixel at either end of a row"),
    ("inner == 'channels' or border == 'copy' and s > 1 and c_per_group <= 16",
     "a row of taps is for few channels and whole taps"),
    ("inner == 'channels' or layout == 'NCHW' or dilation_w == 1 and groups == 1",
     "only then the taps of a row are neighbours in memory"),
)

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
