"""llvm.grouped: fp32 convolution in groups of few channels, of channels-last images."""

from __future__ import annotations

import numpy as np

from ..cache_lines import LINE, PERIOD
from ..devices.device import Device
from ..kernel import Configuration, Kernel, Parameter
from ..launches.implementation import Array, KernelSource
from ..problem import Problem
from .fusion import NONE, Fusion
from .ir.grouped_loops import FIELDS, FUSED_FIELDS
from .ir.grouped_nhwc import GroupedTile
from .ir.tiling import row_runs
from .launch import Launch, Phase
from .text.writer import in_order

KERNEL = Kernel.of(
    name="llvm.grouped",
    operation="conv2d",
    meaning="grouped convolution in registers, channels last: a vector holds output channels of one group or several",
    parameters=(
        Parameter("vector", (4, 8, 16), "output channels in a vector"),
        Parameter("vectors", (1, 2, 3, 4), "vectors of output channels in a tile"),
        Parameter("tile_w", (1, 2, 3, 4, 5, 6, 7, 8, 10, 14), "output pixels of a row in a tile"),
        Parameter("tile_h", (1, 2, 3, 4), "output rows in a tile"),
        Parameter("held", (1, 2, 4), "input channels of a group whose weights are in registers at the same time"),
        Parameter("chunk", (0, 1, 2, 4), "blocks of output channels that go down the image together; 0: all"),
    ),
    derived=(
        ("lanes_k", "vector * vectors"),
        ("groups_per_vector", "vector // min(vector, k_per_group)"),
        ("accumulators", "tile_w * tile_h * vectors"),
        ("seen_w", "(tile_w - 1) * stride_w + (s - 1) * dilation_w + 1"),
        ("seen_h", "(tile_h - 1) * stride_h + (r - 1) * dilation_h + 1"),
        ("sharing", "min(tile_h, ceil_div(r * dilation_h, stride_h))"),
        ("held_weights", "held * s * vectors * sharing"),
        ("registers", "accumulators + held_weights + 1 + (1 if groups_per_vector > 1 else 0)"),
        ("unrolled", "accumulators * r * s * (c_per_group if groups_per_vector > 1 else held)"),
        ("inputs_per_fma", "seen_w * seen_h / (accumulators * r * s)"),
        ("weights_per_fma", "sharing / (tile_w * tile_h)"),
        ("x_lines_a_set", f"max(1, seen_w * max({LINE}, gcd({PERIOD}, c)) / {PERIOD})"),
        ("span_blocks", "ceil_div(k, vector) if groups_per_vector > 1 else ceil_div(k_per_group, lanes_k)"),
        ("k_blocks", "span_blocks * (1 if groups_per_vector > 1 else groups)"),
        ("k_waste", "k_blocks * lanes_k / k"),
        ("w_waste", "ceil_div(out_w, tile_w) * tile_w / out_w"),
        ("h_waste", "ceil_div(out_h, tile_h) * tile_h / out_h"),
        ("tasks", "n * (ceil_div(k_blocks, chunk) if chunk > 0 else 1) * ceil_div(out_h, tile_h)"),
        ("tasks_per_thread", "tasks / threads"),
        ("idle", "ceil_div(tasks, threads) * threads / tasks"),
        ("panel_bytes", "(min(chunk, k_blocks) if chunk > 0 else k_blocks) * lanes_k * c_per_group * r * s * 4"),
        ("rows_bytes", "seen_h * w * 4 * (min(c, (min(chunk, k_blocks) if chunk > 0 else k_blocks) * lanes_k))"),
    ),
    solves=(
        ("dtype == 'fp32'", "it computes in fp32 only"),
        ("direction == 'forward'", "it computes the forward direction only"),
        ("layout == 'NHWC'", "channels must be last"),
        ("groups > 1", "there must be groups"),
        ("c_per_group == k_per_group", "a group must have as many input as output channels"),
        ("c_per_group > 1", "channels that are groups of their own are a depthwise convolution"),
        ("c_per_group <= 64", "groups must have at most 64 channels"),
        ("c_per_group >= 4 or c_per_group == 2", "a vector must hold whole groups, or a group whole vectors"),
        ("c >= 4", "it needs at least 4 channels"),
    ),
    constraints=(
        ("vector <= vector_floats", "a vector must fit the widest register"),
        ("vector <= k_per_group or vector % k_per_group == 0", "a vector must hold whole groups, or be part of one"),
        ("vector <= k", "a vector must not have more channels than there are"),
        ("lanes_k <= k_per_group or vectors == 1", "vectors that share no input need no common tile"),
        ("vector * 2 >= min(vector_floats, 16) or vector * 4 > k or vector * 2 > k_per_group "
         "and vector * 2 % k_per_group > 0", "vectors below half the register's width pay only where none else fits"),
        ("tile_w <= out_w", "a tile must not be wider than the output"),
        ("tile_h <= out_h", "a tile must not be higher than the output"),
        ("c_per_group % held == 0", "held channels must divide the channels of a group"),
        ("registers <= vector_registers or accumulators == 1 and held == 1",
         "sums, weights and an input must fit the registers"),
        ("unrolled <= 600 or accumulators == 1 and held == 1", "the text would take too long to compile"),
        ("accumulators >= 6 or accumulators * 2 > vectors * out_w * out_h "
         "or registers + accumulators > vector_registers or unrolled * 2 > 600",
         "fewer than 6 sums only wait for each other"),
        ("chunk < k_blocks", "0 stands for all channels"),
    ),
    default={"vector": 16, "vectors": 1, "tile_w": 7, "tile_h": 1, "held": 1, "chunk": 1},
    implementation="seqtune.kernels.llvm.grouped:IMPLEMENTATION",
)


class Grouped:
    """Runs llvm.grouped."""

    includes = "borders, bias and activation; weights are packed before"
    fusions = "epilogues of the sum and of a second operand, and pitches"

    def source(self, problem: Problem, device: Device, configuration: Configuration,
               fusion: Fusion = NONE) -> KernelSource:
        """The text; it depends on tile, group, filter, strides, dilation, epilogue, pitch of x and ends of a row."""
        return _tile(problem, configuration, fusion).source()

    def launch(self, problem: Problem, device: Device, configuration: Configuration, fusion: Fusion = NONE) -> Launch:
        """The launch with the sizes of this problem."""
        names = ("n", "c", "h", "w", "pad_h", "pad_w", "out_h", "out_w")
        n, c, h, w, pad_h, pad_w, out_h, out_w = (problem.size(name) for name in names)
        tile, lanes, span = _tile(problem, configuration, fusion), _lanes(configuration), _span(problem, configuration)
        span_blocks, tile_rows = -(-span // lanes), -(-out_h // tile.tile_h)
        blocks = c // span * span_blocks
        chunk = min(configuration.number("chunk") or blocks, blocks)
        pitches = fusion.pitches(c, c)
        further = {"other_image": out_h * out_w * pitches.other, "other_row": out_w * pitches.other,
                   "other_pixel": pitches.other, "other": 0} if tile.fused else {}
        arguments = in_order(
            FUSED_FIELDS if tile.fused else FIELDS, **further, chunks=-(-blocks // chunk), chunk=chunk, blocks=blocks,
            span=span, span_blocks=span_blocks, block=lanes, weights_block=tile.group * tile.r * tile.s * lanes,
            tile_rows=tile_rows, tile_columns=-(-out_w // tile.tile_w), last_row=out_h - tile.tile_h,
            last_column=out_w - tile.tile_w, height=h, width=w, pad_h=pad_h, pad_w=pad_w, x_image=h * w * pitches.x,
            x_row=w * pitches.x, x_pixel=pitches.x, y_image=out_h * out_w * pitches.y, y_row=out_w * pitches.y,
            y_pixel=pitches.y)
        columns = n * -(-blocks // chunk)
        runs = row_runs(n, device.threads, columns, tile_rows) if fusion.chained else 1
        return Launch(arguments, (Phase("grouped", columns * tile_rows, runs=runs),))

    def packing(self, problem: Problem, configuration: Configuration) -> tuple[int, int]:
        """The channels of a block and of the span that blocks divide."""
        return _lanes(configuration), _span(problem, configuration)

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
        """Copy the filter into blocks of output channels: [block][filter row][input channel][filter column][lane].

        The last block of a span overlaps its predecessor.
        """
        lanes, span = self.packing(problem, configuration)
        firsts = [start + min(begin, span - lanes) for start in range(0, len(weights), span)
                  for begin in range(0, span, lanes)]
        return np.stack([weights[first:first + lanes].transpose(2, 1, 3, 0) for first in firsts])


def _lanes(configuration: Configuration) -> int:
    return configuration.number("vector") * configuration.number("vectors")


def _span(problem: Problem, configuration: Configuration) -> int:
    group = problem.size("k_per_group")
    return problem.size("k") if configuration.number("vector") > group else group


def _tile(problem: Problem, configuration: Configuration, fusion: Fusion) -> GroupedTile:
    fusion.check_elements(problem)
    vector, vectors, tile_w, tile_h, held = (
        configuration.number(name) for name in ("vector", "vectors", "tile_w", "tile_h", "held"))
    stride, dilation = ((problem.size(f"{name}_h"), problem.size(f"{name}_w")) for name in ("stride", "dilation"))
    s, out_w, pad = problem.size("s"), problem.size("out_w"), problem.size("pad_w")
    wide = (tile_w - 1) * stride[1] + (s - 1) * dilation[1] + 1
    right = problem.size("w") + pad - (out_w - tile_w) * stride[1]  # the first column that the last tile may not read
    return GroupedTile(
        vector, vectors, tile_w, tile_h, held, problem.size("k_per_group"), problem.size("r"), s, stride, dilation,
        fusion.pitches(problem.size("c"), problem.size("k")).x, min(pad, wide), max(0, min(right, wide)),
        tile_w == out_w, problem["bias"] == "yes", fusion.formula(problem), not fusion.is_plain)


IMPLEMENTATION = Grouped()
