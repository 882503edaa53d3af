"""cuda.direct: the direct convolution of opencl.direct on NVIDIA GPUs, with the values that suit them."""

from __future__ import annotations

from ..c_text.direct import INCLUDES, TEXT_CONSTRAINTS, direct_call, direct_tile
from ..c_text.prelude import program
from ..c_text.tile import PADS, text
from ..devices.device import Device
from ..kernel import Configuration, Kernel, Parameter
from ..launches.call import Call
from ..launches.indexing import offsets_fit
from ..problem import Problem

PAD_GROUP = 256
PAD_BLOCKS = 8  # blocks of the padding copy for each multiprocessor: 2,048 threads fill it

_PAD = PADS["gpu"].replace("PAD_GROUP", f"{PAD_GROUP}")

KERNEL = Kernel.of(
    name="cuda.direct",
    operation="conv2d",
    meaning="direct convolution in register tiles, for few channels, depthwise filters and small outputs",
    parameters=(
        Parameter("vector", (1, 2, 4), "output channels in one vector variable"),
        Parameter("vectors_k", (1, 2, 4), "vectors of output channels of one thread"),
        Parameter("tile_w", (1, 2, 3, 4, 6, 7, 8, 14), "pixels of one thread along a row"),
        Parameter("tile_h", (1, 2, 4), "rows of one thread"),
        Parameter("border", ("copy", "peel"), "pad by a copy of the input, or leave out the taps outside it"),
        Parameter("inner", ("channels", "row"), "innermost in the sum: the channels of a tap, or the taps of a row"),
        Parameter("order", ("pixels", "channels"), "what neighbouring threads differ in: pixels or filter blocks"),
        Parameter("work_group", (32, 64, 128, 256, 512), "threads of a block, along the axis that order names"),
    ),
    derived=(
        ("block", "vector * vectors_k"),
        ("tile", "tile_w * tile_h"),
        ("gemm_m", "n * out_h * out_w"),
        ("gemm_n", "k_per_group"),
        ("gemm_k", "c_per_group * r * s"),
        ("products", "groups"),
        ("block_m", "tile * (work_group if order == 'pixels' else 1)"),
        ("block_n", "block * (work_group if order == 'channels' else 1)"),
        ("block_k", "1"),
        ("block_threads", "work_group"),
        ("stages", "1"),
        ("split_k", "1"),
        ("spots", "n * ceil_div(row_w, tile_w) * ceil_div(rows, tile_h)"),
        ("panels", "groups * ceil_div(k_per_group, block)"),
        ("blocks", "ceil_div(spots, work_group) * panels if order == 'pixels'"
                   " else ceil_div(panels, work_group) * spots"),
        ("shared_bytes", "0"),
        ("thread_registers_estimate", "tile * block + 2 * (tile + block) + 30"),
        ("element_bytes", "4"),
        ("tensor", "0"),
        ("load_bytes", "4 * vector"),
        ("group_m", "1"),
        # neighbouring threads read other pixels, whose channels or columns lie apart, or other panels of the filters
        ("fragment_transactions", "tile * (min(32, 1 + 31 * (c_per_group if layout == 'NHWC' else tile_w) // 32)"
                                  " if order == 'pixels' else 1) + block * (1 if order == 'pixels' else 32) / vector"),
        ("w_waste", "ceil_div(row_w, tile_w) * tile_w / row_w"),
        ("h_waste", "ceil_div(rows, tile_h) * tile_h / rows"),
        ("k_waste", "ceil_div(k_per_group, block) * block / k_per_group"),
        ("blocks_per_unit", "blocks / compute_units"),
        ("loads_per_fma", "(tile + block) / (tile * block)"),
    ),
    solves=(
        ("direction == 'forward'", "only the forward direction"),
        ("dtype == 'fp32'", "only fp32"),
        *offsets_fit("conv2d"),
    ),
    constraints=(
        ("vector > 1 or k_per_group < 2", "single floats are for one output channel"),
        ("block <= k_per_group", "the block must fit in the output channels of a group"),
        ("vectors_k == 1 or vector == 4", "wide vectors come first"),
        ("tile_w <= row_w", "the tile must fit in a row"),
        ("tile_h <= rows", "the tile must fit in the rows"),
        ("tile_h <= tile_w or tile_w * 2 > row_w", "tall tiles share no more than flat ones"),
        *TEXT_CONSTRAINTS,
        ("work_group <= max_work_group", "the device has smaller work-groups"),
        ("(panels if order == 'pixels' else spots) <= 65535",
         "a launch has 65,535 blocks at most along its second axis"),
        ("work_group <= 32 or work_group < 2 * (spots if order == 'pixels' else panels)",
         "half of the threads have nothing to do"),
        ("thread_registers_estimate <= min(vector_registers, unit_registers // work_group)",
         "the accumulators do not fit in the registers"),
    ),
    default={"vector": 4, "vectors_k": 1, "tile_w": 4, "tile_h": 1, "border": "copy", "inner": "channels",
             "order": "pixels", "work_group": 64},
    implementation="seqtune.kernels.cuda.direct:IMPLEMENTATION",
)


class CudaDirect:
    """Runs cuda.direct; each source works for all shapes of one layout, horizontal stride, epilogue, work-group."""

    includes = INCLUDES

    def call(self, problem: Problem, device: Device, configuration: Configuration) -> Call:
        """The padding copy by many threads where there is one, and the tiles, one a thread."""
        tile = direct_tile(problem, configuration)
        body = text(tile, f"GROUP({configuration['work_group']}, 1) ")
        return direct_call(problem, program(device, tile.vector, body if tile.peeled else _PAD + body), configuration,
                           chunk=1, piece=0,
                           pad=lambda rows: (PAD_BLOCKS * device.compute_units * PAD_GROUP, PAD_GROUP))


IMPLEMENTATION = CudaDirect()
