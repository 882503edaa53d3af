"""cuda.tensor_convolution: fp16 or bf16 convolution as a product of gathered pixels and filters on tensor cores."""

from __future__ import annotations

from dataclasses import dataclass

from ..devices.device import Device
from ..kernel import Configuration, Kernel, quantities
from ..launches.call import Call
from ..launches.implementation import Array
from ..launches.indexing import offsets_fit
from ..problem import Problem
from .source.tensor_tile import INPUTS, tensor_source
from .tensor_space import (
    CONSTRAINTS,
    DEFAULT,
    DERIVED,
    PARAMETERS,
    SOLVES,
    TILE_ARGUMENTS,
    panels,
    tensor_call,
    tile_arguments,
    tile_of,
)

ARGUMENTS = (
    "rows", "outputs", "channels", "filter_h", "filter_w", "height", "width",  # all pixels; of a group; of the input
    "columns", "pixels", "above", "before", "stride_h", "stride_w", "dilation_h", "dilation_w",  # of an output image
    "x_image", "x_group", "x_line", "x_pixel", "x_channel", "y_pitch", "y_group", *TILE_ARGUMENTS,
)

KERNEL = Kernel.of(
    name="cuda.tensor_convolution",
    operation="conv2d",
    meaning="fp16 and bf16 convolution on tensor cores, as a matrix product of gathered pixels",
    parameters=PARAMETERS,
    derived=(
        ("gemm_m", "n * out_h * out_w"),
        ("gemm_n", "k_per_group"),
        ("gemm_k", "r * s * c_per_group"),
        ("products", "groups"),
        ("a_by_k", "1 if layout == 'NCHW' else 0"),
        ("y_by_column", "a_by_k"),
        ("load_bytes", "2 * gcd(c_per_group, 8) if layout == 'NHWC' else 2 * gcd(h * w, 8) if pointwise else 2"),
        ("store_bytes", "(2 * gcd(out_h * out_w, 8) if epilogue == 'shared' else 2) if layout == 'NCHW' else"
                        " min(2 * gcd(k_per_group, 8), 16 if epilogue == 'shared' else 4)"),
        ("copy_registers", "4 if layout == 'NHWC' else 1"),
        *DERIVED,
    ),
    solves=(
        *SOLVES,
        ("direction == 'forward'", "only the forward direction"),
        ("k_per_group >= 8", "tensor cores are for at least 8 output channels of a group"),
        ("max(h + 2 * pad_h, w + 2 * pad_w) < 32768", "positions in the input have 16 bits"),
        *offsets_fit("conv2d"),
    ),
    constraints=(
        *CONSTRAINTS,
        ("block_threads * load_bytes % (2 * (block_m if a_by_k else block_k)) == 0",
         "threads must divide into whole rows of shared memory"),
        ("not a_by_k or block_m * block_k * 2 % (block_threads * load_bytes) == 0",
         "all threads must copy equally many pixels of a tile: each advances by whole tiles of k"),
    ),
    default=DEFAULT,
    implementation="seqtune.kernels.cuda.tensor_convolution:IMPLEMENTATION",
)


class TensorConvolution:
    """Runs cuda.tensor_convolution; each source works for all shapes of equal divisibility, padded or not."""

    includes = "everything, from the input as it is; filters packed into tiles before, once"

    def call(self, problem: Problem, device: Device, configuration: Configuration) -> Call:
        """The tiles and, for partial sums, their addition."""
        names, size = quantities(KERNEL.derived, problem, device, configuration), problem.size
        padded = "true" if size("pad_h") + size("pad_w") > 0 else "false"
        source = tensor_source(tile_of(names), "tensor_convolution",
                               f"constexpr bool PADDED = {padded};\n{INPUTS['pixels']}", ARGUMENTS)
        c, h, w, k, pixels = size("c"), size("h"), size("w"), size("k"), size("out_h") * size("out_w")
        nhwc = problem["layout"] == "NHWC"
        values = {
            "rows": size("n") * pixels, "outputs": size("k_per_group"), "channels": size("c_per_group"),
            "filter_h": size("r"), "filter_w": size("s"), "height": h, "width": w, "columns": size("out_w"),
            "pixels": pixels, "above": size("pad_h"), "before": size("pad_w"),
            **{name: size(name) for name in ("stride_h", "stride_w", "dilation_h", "dilation_w")},
            "x_image": c * h * w, "x_group": size("c_per_group") * (1 if nhwc else h * w),
            "x_line": w * (c if nhwc else 1), "x_pixel": c if nhwc else 1, "x_channel": 1 if nhwc else h * w,
            "y_pitch": k, "y_group": size("k_per_group") * (1 if nhwc else pixels), **tile_arguments(names)}
        packing = FilterTiles(size("groups"), names["block_n"], names["block_k"])
        return tensor_call(problem, source, names, "tensor_convolution", (values[name] for name in ARGUMENTS), packing)


@dataclass(frozen=True, slots=True)
class FilterTiles:
    """The filter as [group][tile][tile of k][output channel][k], where k is (r, s, c)."""

    groups: int
    columns: int  # output channels of a tile
    depth: int

    def pack(self, array: Array) -> Array:
        """Pack a filter of shape (output channels, input channels of a group, height, width)."""
        columns = array.transpose(0, 2, 3, 1).reshape(self.groups, array.shape[0] // self.groups, -1)
        return panels(columns, self.columns, self.depth)


IMPLEMENTATION = TensorConvolution()
