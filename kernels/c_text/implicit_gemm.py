"""Implicit GEMM for OpenCL and CUDA: the numbers of its text, its packing and its call."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..kernel import Configuration
from ..launches.call import Call, CallStep
from ..launches.entry_arguments import entry_arguments
from ..launches.implementation import Array, KernelSource
from ..problem import Problem
from .block import ARGUMENTS, Block
from .gemm import overlapping

INCLUDES = "everything, from the input as it is; filters packed before, once"


def gathered_block(problem: Problem, configuration: Configuration, group_m: int, group_n: int, block_k: int) -> Block:
    """The numbers that determine the text: a group has group_m x group_n work-items and copies block_k channels."""
    number = configuration.number
    return Block(number("vector"), number("vectors_n"), number("tile_m"), group_m, group_n, block_k,
                 bool(number("local_a")), bool(number("local_b")), number("unroll"), problem["layout"] == "NHWC",
                 problem.size("pad_h") + problem.size("pad_w") > 0, problem["bias"] == "yes",
                 problem["activation"] == "relu")


@dataclass(frozen=True, slots=True)
class FilterPanels:
    """The filter as [group][panel][r][s][c][output channel]; the last panel overlaps the one before."""

    groups: int
    columns: int  # output channels of a panel

    def pack(self, array: Array) -> Array:
        """Pack a filter of shape (output channels, input channels of a group, height, width)."""
        kg = array.shape[0] // self.groups
        panels = array.reshape(self.groups, kg, *array.shape[1:])[:, overlapping(kg, self.columns)]
        return np.ascontiguousarray(panels.transpose(0, 1, 4, 5, 3, 2))  # from (group, panel, k, c, r, s)


def gathered_call(problem: Problem, source: KernelSource, block: Block, channels_first: bool) -> Call:
    """The call of one step over blocks of pixels and of output channels.

    With `channels_first`, neighbouring work-groups differ in their output channels, else in their pixels.
    """
    size = problem.size
    c, h, w, k = size("c"), size("h"), size("w"), size("k")
    pixels, kg = size("out_h") * size("out_w"), size("k_per_group")
    nhwc = problem["layout"] == "NHWC"
    spots, blocks = -(-pixels // block.pixels), -(-kg // block.outputs)
    values = {
        "channels": size("c_per_group"), "filter_h": size("r"), "filter_w": size("s"), "height": h, "width": w,
        "columns": size("out_w"), "above": size("pad_h"), "before": size("pad_w"),
        **{name: size(name) for name in ("stride_h", "stride_w", "dilation_h", "dilation_w")},
        "x_image": c * h * w, "x_group": size("c_per_group") * (1 if nhwc else h * w),
        "x_line": w * (c if nhwc else 1), "x_pixel": c if nhwc else 1, "x_channel": 1 if nhwc else h * w,
        "y_image": k * pixels, "y_group": kg * (1 if nhwc else pixels),
        "y_pixel": k if nhwc else 1, "y_channel": 1 if nhwc else pixels,
        "pixels": pixels, "outputs": kg, "spots": spots, "blocks": blocks, "channels_first": int(channels_first),
    }
    across, deep = spots * size("n"), blocks * size("groups")
    first, second = (deep, across) if channels_first else (across, deep)
    arguments = entry_arguments(problem, (values[name] for name in ARGUMENTS),
                                FilterPanels(size("groups"), block.outputs))
    return Call(source, (CallStep("implicit_gemm", arguments, (first * block.group_m, second * block.group_n),
                                  (block.group_m, block.group_n)),))
