"""Direct convolution in register tiles, for OpenCL and CUDA: conditions, the numbers of its text, packing and call.

A 1x1 convolution without padding and strides is a matrix product: its pixels are one long row, the rows of A.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..kernel import Configuration
from ..launches.call import Call
from ..launches.implementation import Array, KernelSource
from ..problem import Problem
from .gemm import overlapping
from .tile import PadSizes, RegisterTile, tile_call

INCLUDES = "zero-padded copy of the input where the border is a copy; filters packed before, once"
TEXT_CONSTRAINTS = (  # the borders and sums that the text of a tile can compute on any backend
    ("border == 'copy' or pad_h + pad_w > 0", "without padding there is nothing to peel"),
    ("border == 'copy' or tile_h == 1", "it peels a row at a time"),
    ("border == 'copy' or pad_w <= stride_w and (tile_w - 1) * stride_w <= w"
     " and (out_w - 2) * stride_w - pad_w + (s - 1) * dilation_w < w",
     "it peels one pixel at either end of a row"),
    ("inner == 'channels' or border == 'copy' and s > 1 and c_per_group <= 16",
     "a row of taps is for few channels and whole taps"),
    ("inner == 'channels' or layout == 'NCHW' or dilation_w == 1 and groups == 1",
     "only then the taps of a row are neighbours in memory"),
)


def direct_tile(problem: Problem, configuration: Configuration) -> RegisterTile:
    """The numbers that determine the text."""
    number, nhwc = configuration.number, problem["layout"] == "NHWC"
    return RegisterTile(number("vector"), number("vectors_k"), number("tile_w"), number("tile_h"),
                        0 if nhwc else problem.size("stride_w"), nhwc, problem["bias"] == "yes",
                        problem["activation"] == "relu", configuration["border"] == "peel")


@dataclass(frozen=True, slots=True)
class FilterBlocks:
    """The filter as [group][block][piece of the inner axis][outer][middle][inner][output channel].

    The last block overlaps the one before.
    """

    groups: int
    block: int  # output channels of a block
    rows: bool  # rows of taps are innermost, else channels
    piece: int  # input channels of a piece

    def pack(self, array: Array) -> Array:
        """Pack a filter of shape (output channels, input channels of a group, height, width)."""
        kg = array.shape[0] // self.groups
        blocks = array.reshape(self.groups, kg, *array.shape[1:])[:, overlapping(kg, self.block)]
        # (group, block, k, c, r, s)
        if self.rows:
            return np.ascontiguousarray(blocks.transpose(0, 1, 3, 4, 5, 2))
        pieces = blocks.reshape(*blocks.shape[:3], -1, self.piece, *blocks.shape[4:])
        return np.ascontiguousarray(pieces.transpose(0, 1, 3, 5, 6, 4, 2))


def direct_call(problem: Problem, source: KernelSource, configuration: Configuration, *, chunk: int, piece: int,
                pad: PadSizes) -> Call:
    """The call with the strides of the (padded) input and the output, and the order of the sum.

    A work-item computes `chunk` tiles (0: all of an image), which take `piece` input channels before the next (0: all).
    """
    size, tile = problem.size, direct_tile(problem, configuration)
    n, c, h, w, k = size("n"), size("c"), size("h"), size("w"), size("k")
    cg, kg, out_h, out_w, r, s = (size(name) for name in ("c_per_group", "k_per_group", "out_h", "out_w", "r", "s"))
    pad_h, pad_w, stride_h, stride_w = size("pad_h"), size("pad_w"), size("stride_h"), size("stride_w")
    nhwc, peeled = problem["layout"] == "NHWC", configuration["border"] == "peel"
    high, wide = (h, w) if peeled else (h + 2 * pad_h, w + 2 * pad_w)  # as the tile reads it
    pixel, line, channel = (c, wide * c, 1) if nhwc else (1, wide, high * wide)
    y_pixel, y_line, y_channel = (k, out_w * k, 1) if nhwc else (1, out_w, out_h * out_w)
    tap_h, tap_w = size("dilation_h") * line, size("dilation_w") * pixel
    if configuration["inner"] == "channels":
        axes, steps = (r, s, cg), (tap_h, tap_w, channel)
    else:  # a row of taps; with channels last, those of all channels are neighbours
        axes, steps = ((1, r, s * c), (0, tap_h, 1)) if nhwc else ((cg, r, s), (channel, tap_h, tap_w))
    sizes = {
        **dict(zip(("outer", "middle", "inner"), axes, strict=True)),
        **dict(zip(("x_outer", "x_middle", "x_inner"), steps, strict=True)),
        "piece": piece or axes[2],
        "x_image": c * high * wide, "x_group": cg * channel,
        "x_row": stride_h * line, "x_pixel": stride_w * pixel,
        "x_origin": pad_h * line + pad_w * pixel if peeled else 0,
        "y_image": k * out_h * out_w, "y_group": kg * y_channel, "y_channel": y_channel,
        "y_row": y_line, "y_pixel": y_pixel,
        "images": n, "groups": size("groups"), "rows": size("rows"), "columns": size("row_w"), "outputs": kg,
        "padded": int(not peeled and (pad_h > 0 or pad_w > 0)), "planes": n if nhwc else n * c,
        "padded_height": high, "row_floats": w * pixel, "margin": pad_w * pixel,
        "height": h, "width": w, "above": pad_h, "before": pad_w, "stride_h": stride_h, "stride_w": stride_w,
        "dilation_h": size("dilation_h"), "dilation_w": size("dilation_w"),
    }
    packing = FilterBlocks(size("groups"), tile.block, configuration["inner"] == "row" and not nhwc, piece or cg)
    return tile_call(problem, source, tile, sizes, packing, pixels_first=configuration["order"] == "pixels",
                     chunk=chunk, work_group=configuration.number("work_group"), pad=pad)
