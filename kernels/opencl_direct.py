"""opencl.direct: direct convolution in register tiles, on any OpenCL device."""

from __future__ import annotations

import numpy as np

from seqtune.kernels.cache_lines import conv2d_lines
from seqtune.kernels.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.implementation import Array, Launch, Source
from seqtune.kernels.kernel import Configuration, Constraint, Kernel, Parameter
from seqtune.kernels.opencl_tile import Tile, launch, source
from seqtune.kernels.problem import Problem


class Direct:
    """Runs opencl.direct; every Source serves all shapes of one layout, horizontal stride and epilogue."""

    includes = "zero-padded copy of the input where there is padding; filters packed before, once"

    def tile(self, problem: Problem, configuration: Configuration) -> Tile:
        """What enters the text."""
        nhwc = problem["layout"] == "NHWC"
        number = configuration.number
        return Tile(number("vector"), number("vectors_k"), number("tile_w"), number("tile_h"),
                    0 if nhwc else problem.size("stride_w"), nhwc,
                    problem["bias"] == "yes", problem["activation"] == "relu")

    def source(self, problem: Problem, device: Device, configuration: Configuration) -> Source:
        """The text of the tile."""
        return source(self.tile(problem, configuration))

    def launch(self, problem: Problem, device: Device, configuration: Configuration) -> Launch:
        """Strides of the (padded) input and the output."""
        size = problem.size
        n, c, h, w, k = size("n"), size("c"), size("h"), size("w"), size("k")
        cg, kg, out_h, out_w = size("c_per_group"), size("k_per_group"), size("out_h"), size("out_w")
        pad_h, pad_w, stride_h, stride_w = size("pad_h"), size("pad_w"), size("stride_h"), size("stride_w")
        nhwc = problem["layout"] == "NHWC"
        high, wide = h + 2 * pad_h, w + 2 * pad_w  # as the tile reads it
        pixel, line, plane = (c, wide * c, 0) if nhwc else (1, wide, high * wide)
        y_pixel, y_line, y_plane = (k, out_w * k, 1) if nhwc else (1, out_w, out_h * out_w)
        sizes = {
            "channels": cg, "filter_h": size("r"), "filter_w": size("s"),
            "x_image": c * high * wide, "x_group": cg * (plane or 1), "x_channel": plane or 1,
            "x_row": stride_h * line, "x_pixel": stride_w * pixel,
            "x_tap_h": size("dilation_h") * line, "x_tap_w": size("dilation_w") * pixel,
            "y_image": k * out_h * out_w, "y_group": kg * y_plane, "y_channel": y_plane,
            "y_row": y_line, "y_pixel": y_pixel,
            "images": n, "groups": size("groups"), "rows": size("rows"), "columns": size("row_w"), "outputs": kg,
            "padded": int(pad_h > 0 or pad_w > 0), "planes": n if nhwc else n * c, "height": h, "padded_height": high,
            "above": pad_h, "row_floats": w * pixel, "margin": pad_w * pixel,
        }
        return launch(self.tile(problem, configuration), device, str(configuration["order"]),
                      configuration.number("work_group"), sizes)

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
        """[group][block][r][s][c][output channel]; the last block overlaps the one before."""
        block = self.tile(problem, configuration).block
        groups, kg, cg = problem.size("groups"), problem.size("k_per_group"), problem.size("c_per_group")
        firsts = np.minimum(np.arange(-(-kg // block)) * block, kg - block)
        chosen = weights.reshape(groups, kg, cg, *weights.shape[2:])[:, firsts[:, None] + np.arange(block)]
        return np.ascontiguousarray(chosen.transpose(0, 1, 4, 5, 3, 2))  # from (group, block, k, c, r, s)


IMPLEMENTATION = Direct()

PARAMETERS = (
    Parameter("vector", (1, 4, 8, 16), "output channels in one vector variable"),
    Parameter("vectors_k", (1, 2, 4), "vectors of output channels of one work-item"),
    Parameter("tile_w", (1, 2, 3, 4, 6, 7, 8, 12, 14, 16, 28), "pixels of one work-item along a row"),
    Parameter("tile_h", (1, 2, 4), "rows of one work-item"),
    Parameter("order", ("pixels", "channels"), "what neighbouring work-items share: a filter block or their pixels"),
    Parameter("work_group", (1, 4, 32, 64, 128, 256), "work-items of a group, along the axis that order names"),
)

KERNEL = Kernel(
    name="opencl.direct",
    problem_type="conv2d",
    backends=("opencl",),
    meaning="direct convolution in register tiles",
    parameters=PARAMETERS,
    solves=(
        Constraint.of("direction == 'forward'", "only the forward direction"),
        Constraint.of("dtype == 'fp32'", "only fp32"),
    ),
    derived=(
        ("block", Expression("vector * vectors_k")),
        ("registers", Expression("ceil_div(vector, vector_floats) * vectors_k * tile_w * tile_h")),
        ("w_waste", Expression("ceil_div(row_w, tile_w) * tile_w / row_w")),
        ("h_waste", Expression("ceil_div(rows, tile_h) * tile_h / rows")),
        ("k_waste", Expression("ceil_div(k_per_group, vector * vectors_k) * vector * vectors_k / k_per_group")),
        ("work_items", Expression("n * groups * ceil_div(row_w, tile_w) * ceil_div(rows, tile_h)"
                                  " * ceil_div(k_per_group, vector * vectors_k)")),
        ("items_across", Expression("ceil_div(row_w, tile_w) if order == 'pixels'"
                                    " else groups * ceil_div(k_per_group, vector * vectors_k)")),
        ("work_groups", Expression("work_items // items_across * ceil_div(items_across, work_group)")),
        ("groups_per_unit", Expression("work_groups / compute_units")),
        *conv2d_lines("block"),
    ),
    constraints=(
        Constraint.of("vector > 1 or k_per_group < 4", "single floats are for fewer than 4 output channels"),
        Constraint.of("vector * vectors_k <= k_per_group", "the block must fit in the output channels of a group"),
        Constraint.of("vectors_k == 1 or vector > 1", "single floats come one at a time"),
        Constraint.of("tile_w <= row_w", "the tile must fit in a row"),
        Constraint.of("tile_h <= rows", "the tile must fit in the rows"),
        Constraint.of("vector * 2 >= vector_floats or vector * 2 > k_per_group or vector == 1",
                      "vectors of a quarter of the register leave it empty"),
        Constraint.of("registers >= 4 or tile_w * 2 > row_w", "fewer than 4 accumulators wait for each other"),
        Constraint.of("registers * 4 <= vector_registers * 5", "more than 5/4 of the registers: it only spills"),
        Constraint.of("work_group <= max_work_group", "the device has smaller work-groups"),
        Constraint.of("work_group <= 4 if threads > 0 else work_group >= 32",
                      "a CPU runs a work-group on one thread, a GPU fills a warp with it"),
    ),
    default=(("vector", 16), ("vectors_k", 1), ("tile_w", 7), ("tile_h", 1), ("order", "pixels"),
             ("work_group", 1)),
    implementation="seqtune.kernels.opencl_direct:IMPLEMENTATION",
)
