"""opencl.gemm: matrix product in register tiles; a 1x1 convolution whose pixels are the rows of A."""

from __future__ import annotations

from ..c_text.gemm import INCLUDES, gemm_call, gemm_tile
from ..cache_lines import gemm_lines
from ..devices.device import Device
from ..kernel import Configuration, Kernel, Parameter
from ..launches.call import Call
from ..launches.indexing import offsets_fit
from ..problem import Problem
from .register_tile import tile_source

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
    solves=(("dtype == 'fp32'", "only fp32"), *offsets_fit("gemm")),
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


class OpenCLGemm:
    """Runs opencl.gemm; each source works for all shapes of one `trans_a` and epilogue."""

    includes = INCLUDES

    def call(self, problem: Problem, device: Device, configuration: Configuration) -> Call:
        """The tiles of C."""
        return gemm_call(problem, tile_source(gemm_tile(problem, configuration)), configuration,
                         chunk=configuration.number("chunk"), piece=configuration.number("piece"))


IMPLEMENTATION = OpenCLGemm()
