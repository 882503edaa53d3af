"""opencl.gemm: matrix product in register tiles; a 1x1 convolution whose pixels are the rows of A."""

from __future__ import annotations

import numpy as np

from ..cache_lines import gemm_lines
from ..devices.device import Device
from ..kernel import Configuration, Kernel, Parameter
from ..launches.implementation import Array, KernelSource, Launch
from ..problem import Problem
from .source.tile import OpenCLTile, launch, source


class OpenCLGemm:
    """Runs opencl.gemm; each source works for all shapes of one `trans_a` and epilogue."""

    includes = "the product and its epilogue; B packed into panels before, once"

    def tile(self, problem: Problem, configuration: Configuration) -> OpenCLTile:
        """The numbers that determine the text."""
        number = configuration.number
        return OpenCLTile(number("vector"), number("vectors_n"), number("tile_m"), 1,
                    1 if problem["trans_a"] == "yes" else 0, True,
                    problem["bias"] == "yes", problem["activation"] == "relu")

    def source(self, problem: Problem, device: Device, configuration: Configuration) -> KernelSource:
        """The text of the tile."""
        return source(self.tile(problem, configuration))

    def launch(self, problem: Problem, device: Device, configuration: Configuration) -> Launch:
        """The launch, with rows of A as the pixels of one row, k as channels and n as output channels."""
        m, n, k = problem.size("m"), problem.size("n"), problem.size("k")
        transposed = problem["trans_a"] == "yes"
        sizes = {
            "outer": 1, "middle": 1, "inner": k, "x_inner": m if transposed else 1,
            "piece": configuration.number("piece") or k,
            "x_pixel": 1 if transposed else k, "y_channel": 1, "y_pixel": n,
            "images": 1, "groups": 1, "rows": 1, "columns": m, "outputs": n,
        }
        return launch(self.tile(problem, configuration), device, configuration["order"] == "rows",
                      configuration.number("chunk"), configuration.number("work_group"), sizes)

    def packing(self, problem: Problem, configuration: Configuration) -> tuple[int, bool]:
        """The values (columns of a panel, whether B is transposed)."""
        return self.tile(problem, configuration).block, problem["trans_b"] == "yes"

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
        """Copy B into the order [panel][k][column]; the last panel overlaps the one before."""
        n, (block, transposed) = problem.size("n"), self.packing(problem, configuration)
        b = weights.T if transposed else weights
        firsts = np.minimum(np.arange(-(-n // block)) * block, n - block)
        return np.ascontiguousarray(b[:, firsts[:, None] + np.arange(block)].transpose(1, 0, 2))


IMPLEMENTATION = OpenCLGemm()

KERNEL = Kernel.of(
    name="opencl.gemm",
    operation="gemm",
    meaning="matrix product in register tiles",
    parameters=(
        Parameter("vector", (1, 4, 8, 16), "columns of C in one vector variable"),
        Parameter("vectors_n", (1, 2, 4), "vectors of columns of one work-item"),
        Parameter("tile_m", (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20), "rows of C of one work-item"),
        Parameter("chunk", (1, 4, 0), "tiles that a work-item computes one after the other; 0: all of a panel"),
        Parameter("piece", (0, 256), "of k, that all tiles of a chunk take before the next; 0: all"),
        Parameter("order", ("rows", "columns"), "the axis of C along which neighbouring work-items lie"),
        Parameter("work_group", (1, 32, 64, 128, 256), "work-items of a group, along the axis that order names"),
    ),
    derived=(
        ("block", "vector * vectors_n"),
        ("registers", "ceil_div(vector, vector_floats) * vectors_n * tile_m"),
        ("registers_used", "registers + ceil_div(vector, vector_floats) * vectors_n + 1"),
        ("m_waste", "ceil_div(m, tile_m) * tile_m / m"),
        ("n_waste", "ceil_div(n, block) * block / n"),
        ("tiles", "ceil_div(m, tile_m)"),
        ("chunk_tiles", "chunk if chunk > 0 else tiles"),
        ("panel_bytes", "(piece if piece > 0 else k) * block * 4"),
        ("spots", "ceil_div(tiles, chunk_tiles)"),
        ("work_items", "spots * ceil_div(n, block)"),
        ("items_across", "spots if order == 'rows' else ceil_div(n, block)"),
        ("work_groups", "work_items // items_across * ceil_div(items_across, work_group)"),
        ("groups_per_unit", "work_groups / compute_units"),
        ("idle", "ceil_div(work_groups, compute_units) * compute_units / work_groups"),
        ("loads_per_fma", "(tile_m + vectors_n) / (tile_m * vectors_n)"),
        ("item_fmas", "chunk_tiles * tile_m * block * k * work_group"),
        *gemm_lines("block"),
    ),
    solves=(("dtype == 'fp32'", "only fp32"),),
    constraints=(
        ("vector > 1 or n < 4", "single floats are for fewer than 4 columns"),
        ("block <= n", "the block must fit in the columns"),
        ("vectors_n == 1 or vector > 1", "single floats come one at a time"),
        ("tile_m <= m", "the tile must fit in the rows"),
        ("vector * 2 >= vector_floats or vector * 2 > n or vector == 1",
         "vectors of a quarter of the register leave it empty"),
        ("(registers_used - vector_registers) * 8 <= vector_registers", "it only spills registers"),
        ("chunk == 1 or chunk * 2 <= tiles", "a chunk this long is of all tiles"),
        ("chunk == 1 or work_items >= compute_units", "chunks this long leave threads idle"),
        ("chunk == 1 or threads > 0", "a GPU needs all the work-items it can get"),
        ("piece == 0 or chunk != 1", "pieces are for tiles that follow each other"),
        ("piece == 0 or k * block * 8 > l2_bytes", "a panel fits in the second-level cache"),
        ("piece == 0 or k % piece == 0 and k > piece", "pieces must divide k"),
        ("work_group <= max_work_group", "the device has smaller work-groups"),
        ("work_group == 1 if threads > 0 else work_group >= 32",
         "a CPU runs a work-group on one thread, a GPU fills a warp with it"),
    ),
    default={"vector": 16, "vectors_n": 1, "tile_m": 8, "chunk": 1, "piece": 0, "order": "rows", "work_group": 1},
    version=2,
    implementation="seqtune.kernels.opencl.gemm:IMPLEMENTATION",
)
