"""opencl.gemm: matrix product in register tiles; a 1x1 convolution whose pixels are the rows of A."""

from __future__ import annotations

import numpy as np

from seqtune.kernels.cache_lines import gemm_lines
from seqtune.kernels.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.implementation import Array, Launch, Source
from seqtune.kernels.kernel import Configuration, Constraint, Kernel, Parameter
from seqtune.kernels.opencl_tile import Tile, launch, source
from seqtune.kernels.problem import Problem


class Gemm:
    """Runs opencl.gemm; every Source serves all shapes of one `trans_a` and epilogue."""

    includes = "the product and its epilogue; B packed into panels before, once"

    def tile(self, problem: Problem, configuration: Configuration) -> Tile:
        """What enters the text."""
        number = configuration.number
        return Tile(number("vector"), number("vectors_n"), number("tile_m"), 1,
                    1 if problem["trans_a"] == "yes" else 0, True,
                    problem["bias"] == "yes", problem["activation"] == "relu")

    def source(self, problem: Problem, device: Device, configuration: Configuration) -> Source:
        """The text of the tile."""
        return source(self.tile(problem, configuration))

    def launch(self, problem: Problem, device: Device, configuration: Configuration) -> Launch:
        """Rows of A as the pixels of one row, k as channels, n as output channels."""
        m, n, k = problem.size("m"), problem.size("n"), problem.size("k")
        transposed = problem["trans_a"] == "yes"
        sizes = {
            "channels": k, "filter_h": 1, "filter_w": 1,
            "x_image": 0, "x_group": 0, "x_channel": m if transposed else 1, "x_row": 0,
            "x_pixel": 1 if transposed else k, "x_tap_h": 0, "x_tap_w": 0,
            "y_image": 0, "y_group": 0, "y_channel": 1, "y_row": 0, "y_pixel": n,
            "images": 1, "groups": 1, "rows": 1, "columns": m, "outputs": n,
            "padded": 0, "planes": 0, "height": 0, "padded_height": 0, "above": 0, "row_floats": 0, "margin": 0,
        }
        return launch(self.tile(problem, configuration), device,
                      "pixels" if configuration["order"] == "rows" else "channels",
                      configuration.number("work_group"), sizes)

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
        """[panel][k][column]; the last panel overlaps the one before."""
        n, block = problem.size("n"), self.tile(problem, configuration).block
        b = weights.T if problem["trans_b"] == "yes" else weights
        firsts = np.minimum(np.arange(-(-n // block)) * block, n - block)
        return np.ascontiguousarray(b[:, firsts[:, None] + np.arange(block)].transpose(1, 0, 2))


IMPLEMENTATION = Gemm()

KERNEL = Kernel(
    name="opencl.gemm",
    problem_type="gemm",
    backends=("opencl",),
    meaning="matrix product in register tiles",
    parameters=(
        Parameter("vector", (1, 4, 8, 16), "columns of C in one vector variable"),
        Parameter("vectors_n", (1, 2, 4), "vectors of columns of one work-item"),
        Parameter("tile_m", (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20), "rows of C of one work-item"),
        Parameter("order", ("rows", "columns"), "the axis of C along which neighbouring work-items lie"),
        Parameter("work_group", (1, 4, 32, 64, 128, 256), "work-items of a group, along the axis that order names"),
    ),
    solves=(Constraint.of("dtype == 'fp32'", "only fp32"),),
    derived=(
        ("block", Expression("vector * vectors_n")),
        ("registers", Expression("ceil_div(vector, vector_floats) * vectors_n * tile_m")),
        ("m_waste", Expression("ceil_div(m, tile_m) * tile_m / m")),
        ("n_waste", Expression("ceil_div(n, vector * vectors_n) * vector * vectors_n / n")),
        ("work_items", Expression("ceil_div(m, tile_m) * ceil_div(n, vector * vectors_n)")),
        ("items_across", Expression("ceil_div(m, tile_m) if order == 'rows' else ceil_div(n, vector * vectors_n)")),
        ("work_groups", Expression("work_items // items_across * ceil_div(items_across, work_group)")),
        ("groups_per_unit", Expression("work_groups / compute_units")),
        *gemm_lines("block"),
    ),
    constraints=(
        Constraint.of("vector > 1 or n < 4", "single floats are for fewer than 4 columns"),
        Constraint.of("vector * vectors_n <= n", "the block must fit in the columns"),
        Constraint.of("vectors_n == 1 or vector > 1", "single floats come one at a time"),
        Constraint.of("tile_m <= m", "the tile must fit in the rows"),
        Constraint.of("vector * 2 >= vector_floats or vector * 2 > n or vector == 1",
                      "vectors of a quarter of the register leave it empty"),
        Constraint.of("registers * 4 <= vector_registers * 5", "more than 5/4 of the registers: it only spills"),
        Constraint.of("work_group <= max_work_group", "the device has smaller work-groups"),
        Constraint.of("work_group <= 4 if threads > 0 else work_group >= 32",
                      "a CPU runs a work-group on one thread, a GPU fills a warp with it"),
    ),
    default=(("vector", 16), ("vectors_n", 1), ("tile_m", 8), ("order", "rows"),
             ("work_group", 1)),
    implementation="seqtune.kernels.opencl_gemm:IMPLEMENTATION",
)
