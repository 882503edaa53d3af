"""llvm.direct: fp32 convolution, register-blocked, on a zero-padded copy of its input where there is padding."""

from __future__ import annotations

import numpy as np

from seqtune.kernels.cache_lines import conv2d_lines
from seqtune.kernels.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.implementation import Array, Launch, Phase, Source
from seqtune.kernels.kernel import Configuration, Constraint, Kernel, Parameter
from seqtune.kernels.llvm_loops import arguments
from seqtune.kernels.llvm_tile import BODIES, Tile
from seqtune.kernels.problem import Problem

# Body of the innermost loop -> channels that it unrolls, taps that it unrolls.
_UNROLLED = "tile_pixels * vectors_k * (s if body == 'row' else r * s if body == 'filter' else channels_unrolled)"

# SSE multiplies in place, so its inputs need no register of their own to be tried (some spill: that is learnable).
_INPUT_REGISTER = "(0 if instruction_set == 'sse' else 1)"

KERNEL = Kernel(
    name="llvm.direct",
    problem_type="conv2d",
    backends=("llvm",),
    parameters=(
        Parameter("vector", (1, 4, 8, 16), "output channels in a vector"),
        Parameter("vectors_k", (1, 2, 3, 4, 6), "vectors of output channels in a tile"),
        Parameter("tile_w", (1, 2, 3, 4, 6, 7, 8, 10, 12, 14, 16, 20, 28), "output pixels of a row in a tile"),
        Parameter("tile_h", (1, 2, 4), "output rows in a tile"),
        Parameter("body", BODIES, "the innermost loop's body: a filter row, a filter, or 1-8 channels of one tap"),
        Parameter("chunk", (0, 1, 4, 16), "tiles that all output channels visit before the next; 0: all tiles"),
    ),
    derived=tuple((name, Expression(text)) for name, text in (
        ("lanes_k", "vector * vectors_k"),
        ("tile_pixels", "tile_w * tile_h"),
        ("accumulators", "tile_pixels * vectors_k"),
        ("channels_unrolled", "2 if body == 'c2' else 4 if body == 'c4' else 8 if body == 'c8' else 1"),
        ("unrolled", _UNROLLED),
        ("loads_per_fma", "(tile_pixels + vectors_k) / (tile_pixels * vectors_k)"),
        ("k_blocks", "ceil_div(k_per_group, lanes_k)"),
        ("tiles", "ceil_div(row_w, tile_w) * ceil_div(rows, tile_h)"),
        ("w_waste", "ceil_div(row_w, tile_w) * tile_w / row_w"),
        ("h_waste", "ceil_div(rows, tile_h) * tile_h / rows"),
        ("k_waste", "k_blocks * lanes_k / k_per_group"),
        ("tasks", "n * groups * (ceil_div(tiles, chunk) if chunk > 0 else k_blocks * min(threads, tiles))"),
        ("tasks_per_thread", "tasks / threads"),
        ("idle", "ceil_div(tasks, threads) * threads / tasks"),
        ("panel_bytes", "c_per_group * r * s * lanes_k * 4"),
        ("chunk_tiles", "min(chunk, tiles) if chunk > 0 else ceil_div(tiles, threads)"),
        ("input_bytes", "chunk_tiles * tile_w * tile_h * stride_h * stride_w * c_per_group * 4"),
    )) + conv2d_lines("lanes_k"),
    solves=(
        Constraint.of("dtype == 'fp32'", "it computes in fp32 only"),
        Constraint.of("direction == 'forward'", "it computes the forward direction only"),
    ),
    constraints=(
        Constraint.of("vector <= vector_floats", "a vector must fit the widest register"),
        Constraint.of("vector * 2 >= min(vector_floats, 16) or vector * 4 > k_per_group",
                      "vectors below half the register's width pay only where there are few output channels"),
        Constraint.of("vector > 1 or k_per_group < 4", "single channels pay only below 4 output channels"),
        Constraint.of("vector * vectors_k <= k_per_group", "a tile must not have more channels than a group"),
        Constraint.of("tile_w <= row_w", "a tile must not be wider than the output"),
        Constraint.of("tile_h <= rows", "a tile must not be higher than the output"),
        Constraint.of(f"accumulators + vectors_k + {_INPUT_REGISTER} <= vector_registers",
                      "accumulators, weights and one input must fit the registers"),
        Constraint.of("accumulators >= 4 or accumulators * 2 >= vectors_k * row_w * rows or vector < 4",
                      "fewer than 4 accumulators only wait for each other"),
        Constraint.of("accumulators * 8 >= vector_registers * 3 or vector == min(vector_floats, 16) "
                      "or vector * 4 > k_per_group", "narrow vectors need accumulators in 3/8 of the registers"),
        Constraint.of("unrolled <= 400", "the innermost loop's body would be too long to compile quickly"),
        Constraint.of("body != 'row' or r > 1", "a filter of one row has no loop over rows"),
        Constraint.of("body != 'filter' or s * r > 1", "for a filter of one tap it is the body c1"),
        Constraint.of("c_per_group % channels_unrolled == 0", "unrolled channels must divide the input channels"),
        Constraint.of("chunk == 0 or k_blocks > 1", "one block of output channels visits all tiles in any case"),
        Constraint.of("chunk == 0 or chunk == 1 or chunk * threads <= tiles * n * groups",
                      "chunks this large leave threads idle"),
    ),
    default=(("vector", 16), ("vectors_k", 2), ("tile_w", 6), ("tile_h", 1), ("body", "c2"), ("chunk", 4)),
    meaning="direct convolution in registers: tile_w x tile_h pixels by vectors_k vectors of output channels",
    implementation="seqtune.kernels.llvm_direct:IMPLEMENTATION",
)


class Direct:
    """Runs llvm.direct."""

    includes = "the zero-padding copy of the input, bias and activation; weights are packed before"

    def source(self, problem: Problem, device: Device, configuration: Configuration) -> Source:
        """One text per tile, filter size, layout, pixel step and epilogue."""
        features = dict(problem.features)
        size = {name: value for name, value in features.items() if isinstance(value, int)}
        last = features["layout"] == "NHWC"
        return Tile(
            vector=configuration.number("vector"), vectors=configuration.number("vectors_k"),
            tile_h=configuration.number("tile_h"), tile_w=configuration.number("tile_w"),
            body=str(configuration["body"]), r=size["r"], s=size["s"],
            pixel_step=size["stride_w"] * (size["c"] if last else 1), channels_last=last,
            bias=features["bias"] == "yes", relu=features["activation"] == "relu").source()

    def launch(self, problem: Problem, device: Device, configuration: Configuration) -> Launch:
        """Sizes of this problem; a first phase pads where there is padding."""
        names = problem.names()
        size = {name: value for name, value in names.items() if isinstance(value, int)}
        last = problem["layout"] == "NHWC"
        groups, c, k = size["groups"], size["c"], size["k"]
        lanes = configuration.number("vector") * configuration.number("vectors_k")
        tile_w, tile_h, chunk = (configuration.number(name) for name in ("tile_w", "tile_h", "chunk"))
        padded = size["pad_h"] > 0 or size["pad_w"] > 0
        high, wide = size["h"] + 2 * size["pad_h"], size["w"] + 2 * size["pad_w"]
        pitch = c if last else 1
        line, row_w, rows = wide * pitch, size["row_w"], size["rows"]
        columns = -(-row_w // tile_w)
        tiles = columns * -(-rows // tile_h)
        k_blocks = -(-size["k_per_group"] // lanes)
        k_tasks = 1 if chunk else k_blocks
        chunk = chunk or -(-tiles // min(device.threads, tiles))
        chunks = -(-tiles // chunk)
        planes, per_plane = (size["n"], c) if last else (size["n"] * c, 1)
        given = arguments(
            block=lanes, tile_w=tile_w, tile_h=tile_h, tile_columns=columns,
            tiles=tiles, last_column=row_w - tile_w, last_row=rows - tile_h, chunk=chunk, chunks=chunks,
            k_tasks=k_tasks, k_blocks_per_task=-(-k_blocks // k_tasks), k_blocks=k_blocks,
            last_k=size["k_per_group"] - lanes, groups=groups,
            x_image=c * high * wide, x_group=size["c_per_group"] * (1 if last else high * wide),
            x_row=size["stride_h"] * line, x_tap_row=size["dilation_h"] * line,
            x_tap_column=size["dilation_w"] * pitch, x_channel=1 if last else high * wide,
            channels=size["c_per_group"], x_column=size["stride_w"] * pitch,
            y_image=k * size["out_h"] * size["out_w"],
            y_group=size["k_per_group"] * (1 if last else size["out_h"] * size["out_w"]),
            y_row=size["out_w"] * (k if last else 1), y_pixel=k if last else 1,
            y_channel=1 if last else size["out_h"] * size["out_w"],
            weights_block=size["c_per_group"] * size["r"] * size["s"] * lanes,
            pad_rows=high, pad_top=size["pad_h"], pad_left=size["pad_w"] * per_plane,
            pad_right=size["pad_w"] * per_plane, source_rows=size["h"], source_row=size["w"] * per_plane,
            padded_row=line)
        main = Phase("padded" if padded else "direct", size["n"] * groups * k_tasks * chunks)
        if not padded:
            return Launch(given, (main,))
        return Launch(given, (Phase("pad", planes * high), main), size["n"] * c * high * wide)

    def packing(self, problem: Problem, configuration: Configuration) -> tuple[int, bool]:
        """What `pack` depends on besides the weights: equal packings are equal arrays."""
        lanes = configuration.number("vector") * configuration.number("vectors_k")
        return lanes, str(configuration["body"]).startswith("c")

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
        """[group][block of channels][tap and input channel in the body's order][channel]; the last block overlaps."""
        return pack(weights, int(problem["groups"] or 1), *self.packing(problem, configuration))


def pack(weights: Array, groups: int, lanes: int, taps_outside: bool) -> Array:
    """Packed panels of (k, c // groups, r, s) weights."""
    k, c, r, s = weights.shape
    per_group = k // groups
    order = (0, 3, 2, 1) if taps_outside else (0, 2, 3, 1)
    panels = weights.reshape(groups, per_group, c, r * s).transpose(order).reshape(groups, c * r * s, per_group)
    blocks = -(-per_group // lanes)
    packed = np.empty((groups, blocks, c * r * s, lanes), np.float32)
    for block in range(blocks):
        first = min(block * lanes, per_group - lanes)
        packed[:, block] = panels[:, :, first:first + lanes]
    return packed


IMPLEMENTATION = Direct()
