"""llvm.depthwise: fp32 convolution of every channel with its own filter, vectorised along the contiguous axis.

Its code also runs llvm.depthwise_bf16.
"""

from __future__ import annotations

import numpy as np

from ..devices.device import Device
from ..kernel import Configuration, Kernel, Parameter
from ..launches.implementation import Array, KernelSource
from ..problem import Problem
from .fusion import NONE, Fusion
from .ir.depthwise_nchw import PixelTile
from .ir.depthwise_nhwc import ChannelTile
from .launch import Launch

KERNEL = Kernel.of(
    name="llvm.depthwise",
    operation="conv2d",
    meaning="depthwise convolution in registers, vectorised over channels (NHWC) or pixels (NCHW)",
    parameters=(
        Parameter("vector", (4, 8, 16), "channels (NHWC) or pixels of a row (NCHW) in a vector"),
        Parameter("tile_w", (1, 2, 3, 4, 5, 6, 7, 8, 10, 14), "output pixels (NHWC) or vectors of them (NCHW) in a row "
                                                              "of a register block"),
        Parameter("tile_h", (1, 2, 3, 4, 7), "output rows in a register block"),
        Parameter("chunk", (0, 1, 2, 4, 8), "vectors of channels that go down the image together (NHWC); 0: all"),
    ),
    derived=(
        ("last", "1 if layout == 'NHWC' else 0"),
        ("lanes_w", "tile_w if last else tile_w * vector"),
        ("accumulators", "tile_w * tile_h"),
        ("flat", "1 if lanes_w > out_w else 0"),
        ("seen_w", "(tile_w - 1) * stride_w + (s - 1) * dilation_w + 1 if last else tile_w * s"),
        ("seen_h", "(tile_h - 1) * stride_h + (r - 1) * dilation_h + 1"),
        ("loads_per_fma", "seen_w * seen_h / (accumulators * r * s)"),
        ("kinds", "1 if pad_w == 0 or last == 0 else 2 if tile_w * 2 > out_w or stride_w > 1 else 3"),
        ("unrolled", "accumulators * r * s * kinds"),
        ("c_blocks", "ceil_div(c, vector)"),
        ("c_waste", "c_blocks * vector / c if last else 1"),
        ("w_waste", "(w + 2 * pad_w) / (out_w * stride_w) if flat else ceil_div(out_w, lanes_w) * lanes_w / out_w"),
        ("h_waste", "ceil_div(out_h, tile_h) * tile_h / out_h"),
        ("tasks", "n * (ceil_div(c_blocks, chunk) if chunk > 0 else 1) * ceil_div(out_h, tile_h) if last else n * c"),
        ("tasks_per_thread", "tasks / threads"),
        ("idle", "ceil_div(tasks, threads) * threads / tasks"),
        ("rows_bytes", "seen_h * w * (min(chunk, c_blocks) * vector if chunk > 0 else c) * 4 if last else h * w * 4"),
    ),
    solves=(
        ("dtype == 'fp32'", "it computes in fp32 only"),
        ("direction == 'forward'", "it computes the forward direction only"),
        ("c_per_group == 1 and k_per_group == 1", "every channel must be a group of its own"),
        ("layout == 'NCHW' or c >= 4", "channels last, it needs at least 4 of them"),
    ),
    constraints=(
        ("vector <= vector_floats", "a vector must fit the widest register"),
        ("layout == 'NCHW' or vector <= c", "a vector must not have more channels than there are"),
        ("vector * 2 >= min(vector_floats, 16) or (layout == 'NHWC' and vector * 4 > c)",
         "vectors below half the register's width pay only where there are few channels"),
        ("layout == 'NCHW' or tile_w <= out_w", "a register block must not be wider than the output"),
        ("layout == 'NHWC' or tile_w == 1 or lanes_w * 2 <= out_h * (out_w + s)",
         "a register block must not have more pixels than half a plane"),
        ("tile_h <= out_h", "a register block must not be higher than the output"),
        ("flat == 0 or last or tile_h == 1", "a register block wider than a row has one row"),
        ("accumulators + s + 1 <= vector_registers", "sums, a filter's row and an input must fit the "
                                                     "registers"),
        ("unrolled <= 440 or accumulators == 1", "the text would take too long to compile"),
        ("layout == 'NHWC' or chunk == 0", "channels first, a task is one plane"),
        ("chunk < c_blocks", "0 stands for all channels"),
    ),
    default={"vector": 16, "tile_w": 4, "tile_h": 2, "chunk": 0},
    implementation="seqtune.kernels.llvm.depthwise:IMPLEMENTATION",
)


class Depthwise:
    """Runs llvm.depthwise."""

    includes = "borders, bias and activation; weights are packed before"
    fusions = "epilogues of the sum; with layout=NHWC of a second operand, too, and pitches"

    def source(self, problem: Problem, device: Device, configuration: Configuration,
               fusion: Fusion = NONE) -> KernelSource:
        """The text; it depends on register block, filter, strides, dilation, epilogue and (NHWC) kinds of borders."""
        tile = _tile(problem, device, configuration, fusion)
        return tile.source(problem) if isinstance(tile, ChannelTile) else tile.source()

    def launch(self, problem: Problem, device: Device, configuration: Configuration, fusion: Fusion = NONE) -> Launch:
        """The launch with the sizes of this problem."""
        tile = _tile(problem, device, configuration, fusion)
        if isinstance(tile, ChannelTile):
            return tile.launch(problem, configuration.number("chunk"), device.threads, fusion)
        return tile.launch(problem, device.threads)

    def packing(self, problem: Problem, configuration: Configuration) -> bool:
        """Whether channels are last, which determines the order of the packed filter."""
        return problem["layout"] == "NHWC"

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
        """Copy the filter into the order [tap][channel] if channels are last, else [channel][tap]."""
        taps = weights.reshape(len(weights), -1)
        return np.ascontiguousarray(taps.T if self.packing(problem, configuration) else taps)


def _tile(problem: Problem, device: Device, configuration: Configuration, fusion: Fusion) -> ChannelTile | PixelTile:
    vector, tile_w, tile_h = (configuration.number(name) for name in ("vector", "tile_w", "tile_h"))
    r, s, bias, formula = problem.size("r"), problem.size("s"), problem["bias"] == "yes", fusion.formula(problem)
    stride, dilation = ((problem.size(f"{name}_h"), problem.size(f"{name}_w")) for name in ("stride", "dilation"))
    if problem["layout"] == "NHWC":
        elements = fusion.elements(problem, device)
        return ChannelTile(vector, tile_w, tile_h, r, s, stride, dilation, bias, formula, not fusion.is_plain, elements)
    fusion.check_channels_first(problem)
    return PixelTile(vector, tile_w, tile_h, r, s, stride, dilation, bias, formula)


IMPLEMENTATION = Depthwise()
