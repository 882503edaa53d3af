"""cuda.shared_convolution: fp32 convolution as a matrix product through shared memory, for NVIDIA GPUs.

Source: S. Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning", 2014: rows of A are pixels of all images,
gathered while it runs; its columns are taps times input channels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..c_text.prelude import program
from ..devices.device import Device
from ..kernel import Configuration, Kernel, Parameter
from ..launches.call import Call
from ..launches.implementation import Array
from ..launches.indexing import offsets_fit
from ..problem import Problem
from .source.shared_block import CONSTRAINTS, DEFAULT, DERIVED, PARAMETERS, SharedBlock, numbers, shared_call
from .source.shared_text import text, width

KERNEL = Kernel.of(
    name="cuda.shared_convolution",
    operation="conv2d",
    meaning="convolution as a matrix product through shared memory, with several tiles in flight and slices of the sum",
    parameters=(
        *PARAMETERS,
        Parameter("inner", ("channels", "flat"), "a tile of the sum holds channels of one tap, or of several"),
    ),
    derived=(
        ("gemm_m", "n * out_h * out_w"),
        ("gemm_n", "k_per_group"),
        ("gemm_k", "c_per_group * r * s"),
        ("products", "groups"),
        ("tiles", "ceil_div(gemm_k, block_k) if inner == 'flat' else r * s * ceil_div(c_per_group, block_k)"),
        ("k_waste", "tiles * block_k / gemm_k"),
        ("rows_first", "1 if layout == 'NCHW' else 0"),
        ("contiguous", "c_per_group if layout == 'NHWC' else out_h * out_w if pointwise else 1"),
        ("row_registers", "4"),
        *DERIVED,
    ),
    solves=(
        ("direction == 'forward'", "only the forward direction"),
        ("dtype == 'fp32'", "only fp32"),
        ("k_per_group >= 4", "it gathers for at least 4 output channels"),
        *offsets_fit("conv2d"),
    ),
    constraints=(
        ("inner == 'channels' or r * s > 1 and c_per_group % block_k > 0",
         "no tile of the sum would hold several taps"),
        ("inner == 'flat' or k_waste < 1.5 or r * s == 1", "too much of the tiles would be empty"),
        *CONSTRAINTS,
    ),
    default={**DEFAULT, "inner": "channels"},
    implementation="seqtune.kernels.cuda.shared_convolution:IMPLEMENTATION",
)


class SharedConvolution:
    """Runs cuda.shared_convolution; each source works for all shapes of one layout, divisibility by 4 and epilogue."""

    includes = "everything, from the input as it is, slices added; filters packed before, once"

    def call(self, problem: Problem, device: Device, configuration: Configuration) -> Call:
        """The blocks of pixels and output channels, slices of the sum and groups."""
        size, block, nhwc = problem.size, _block(problem, configuration), problem["layout"] == "NHWC"
        n, c, h, w, k = size("n"), size("c"), size("h"), size("w"), size("k")
        cg, kg, area = size("c_per_group"), size("k_per_group"), size("out_h") * size("out_w")
        source = program(device, width(block), text(block), copies=True)
        packing = _packing(problem, configuration)
        return shared_call(problem, source, block, {
            "rows": n * area, "outputs": kg, "channels": cg, "tiles": packing.parts * packing.length // block.block_k,
            "x_channel": 1 if nhwc else h * w, "x_image": c * h * w, "x_group": cg * (1 if nhwc else h * w),
            "x_line": w * (c if nhwc else 1), "x_pixel": c if nhwc else 1,
            "taps": size("r") * size("s"), "filter_w": size("s"), "height": h, "width": w,
            "columns": size("out_w"), "area": area, "above": size("pad_h"), "before": size("pad_w"),
            **{name: size(name) for name in ("stride_h", "stride_w", "dilation_h", "dilation_w")},
            "y_row": k, "y_image": k * area, "y_group": kg * (1 if nhwc else area), "y_total": n * k * area,
            "bias_step": 1 if nhwc else area, "bias_count": k}, packing,
            groups=size("groups"), slices=configuration.number("split_k"))


def _block(problem: Problem, configuration: Configuration) -> SharedBlock:
    """The numbers that determine the text."""
    size, nhwc = problem.size, problem["layout"] == "NHWC"
    channels, area, flat = size("c_per_group"), size("out_h") * size("out_w"), configuration["inner"] == "flat"
    pixels = area if size("pointwise") else 1  # neighbouring pixels are neighbours in the input as well
    return numbers(configuration, contiguous=channels if nhwc else pixels,
                   channels=channels * size("r") * size("s") if flat else channels, rows_first=not nhwc,
                   columns_last=nhwc, stored=size("k_per_group") if nhwc else area,
                   bias=problem["bias"] == "yes", relu=problem["activation"] == "relu", gathered=True, flat=flat,
                   padded=size("pad_h") + size("pad_w") > 0)


@dataclass(frozen=True, slots=True)
class PaddedFilter:
    """The filter as [group][panel][r][s][c][output channel], with zeros up to whole panels and tiles."""

    groups: int
    columns: int  # output channels of a panel
    parts: int  # parts of the sum, each padded to whole tiles: the taps, or 1 for the whole sum
    length: int  # length of a padded part

    def pack(self, array: Array) -> Array:
        """Pack a filter of shape (output channels, input channels of a group, height, width)."""
        kg = array.shape[0] // self.groups
        rows = array.reshape(self.groups, kg, *array.shape[1:]).transpose(0, 3, 4, 2, 1).reshape(
            self.groups, self.parts, -1, kg)
        padded = np.pad(rows, ((0, 0), (0, 0), (0, self.length - rows.shape[2]), (0, -kg % self.columns)))
        panels = padded.reshape(self.groups, self.parts * self.length, -1, self.columns)
        return np.ascontiguousarray(panels.transpose(0, 2, 1, 3))


def _packing(problem: Problem, configuration: Configuration) -> PaddedFilter:
    channels, taps = problem.size("c_per_group"), problem.size("r") * problem.size("s")
    block_k = configuration.number("block_k")
    parts, length = (1, channels * taps) if configuration["inner"] == "flat" else (taps, channels)
    return PaddedFilter(problem.size("groups"), configuration.number("block_n"), parts, -(-length // block_k) * block_k)


IMPLEMENTATION = SharedConvolution()
