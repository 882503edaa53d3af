"""cuda.gemm: the matrix product of opencl.gemm on NVIDIA GPUs, with the values that suit them; no shared memory."""

from __future__ import annotations

from ..c_text.gemm import INCLUDES, gemm_call, gemm_tile
from ..c_text.prelude import program
from ..c_text.tile import text
from ..devices.device import Device
from ..kernel import Configuration, Kernel, Parameter
from ..launches.call import Call
from ..launches.indexing import offsets_fit
from ..problem import Problem

KERNEL = Kernel.of(
    name="cuda.gemm",
    operation="gemm",
    meaning="matrix product in register tiles; for products too small to share loads",
    parameters=(
        Parameter("vector", (1, 2, 4), "columns of C in one vector variable"),
        Parameter("vectors_n", (1, 2, 4), "vectors of columns of one thread"),
        Parameter("tile_m", (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16), "rows of C of one thread"),
        Parameter("order", ("rows", "columns"), "the axis of C along which neighbouring threads lie"),
        Parameter("work_group", (32, 64, 128, 256, 512), "threads of a block, along the axis that order names"),
    ),
    derived=(
        ("block", "vector * vectors_n"),
        ("gemm_m", "m"),
        ("gemm_n", "n"),
        ("gemm_k", "k"),
        ("products", "1"),
        ("block_m", "tile_m * (work_group if order == 'rows' else 1)"),
        ("block_n", "block * (work_group if order == 'columns' else 1)"),
        ("block_k", "1"),
        ("block_threads", "work_group"),
        ("stages", "1"),
        ("split_k", "1"),
        ("spots", "ceil_div(m, tile_m)"),
        ("panels", "ceil_div(n, block)"),
        ("blocks", "ceil_div(spots, work_group) * panels if order == 'rows' else ceil_div(panels, work_group) * spots"),
        ("shared_bytes", "0"),
        ("thread_registers_estimate", "tile_m * block + 2 * (tile_m + block) + 24"),
        ("element_bytes", "4"),
        ("tensor", "0"),
        ("load_bytes", "4 * vector"),
        ("group_m", "1"),
        # neighbouring threads read other rows of A, k numbers apart, or other panels of B; or else the same ones
        ("fragment_transactions", "tile_m * (32 if order == 'rows' and trans_a == 'no' else 1)"
                                  " + block * (1 if order == 'rows' else 32) / vector"),
        ("m_waste", "spots * tile_m / m"),
        ("n_waste", "panels * block / n"),
        ("blocks_per_unit", "blocks / compute_units"),
        ("loads_per_fma", "(tile_m + block) / (tile_m * block)"),
    ),
    solves=(("dtype == 'fp32'", "only fp32"), *offsets_fit("gemm")),
    constraints=(
        ("vector > 1 or n < 2", "single floats are for one column"),
        ("block <= n", "the block must fit in the columns"),
        ("vectors_n == 1 or vector == 4", "wide vectors come first"),
        ("tile_m <= m", "the tile must fit in the rows"),
        ("work_group <= max_work_group", "the device has smaller work-groups"),
        ("(panels if order == 'rows' else spots) <= 65535", "a launch has 65,535 blocks at most along its second axis"),
        ("work_group <= 32 or work_group < 2 * (spots if order == 'rows' else panels)",
         "half of the threads have nothing to do"),
        ("thread_registers_estimate <= min(vector_registers, unit_registers // work_group)",
         "the accumulators do not fit in the registers"),
    ),
    default={"vector": 4, "vectors_n": 1, "tile_m": 4, "order": "columns", "work_group": 64},
    implementation="seqtune.kernels.cuda.gemm:IMPLEMENTATION",
)


class CudaGemm:
    """Runs cuda.gemm; each source works for all shapes of one `trans_a`, epilogue and work-group."""

    includes = INCLUDES

    def call(self, problem: Problem, device: Device, configuration: Configuration) -> Call:
        """The tiles of C, one a thread."""
        tile = gemm_tile(problem, configuration)
        body = text(tile, f"GROUP({configuration['work_group']}, 1) ")
        return gemm_call(problem, program(device, tile.vector, body), configuration, chunk=1, piece=0)


IMPLEMENTATION = CudaGemm()
