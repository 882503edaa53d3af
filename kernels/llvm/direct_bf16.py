"""llvm.direct_bf16: llvm.direct with channels last in bf16, whose instruction adds two products to an fp32 sum.

Bias, sums and epilogue are in fp32; the filter is packed in pairs of input channels.
"""

from __future__ import annotations

from ..cache_lines import PADDED, conv2d_lines
from ..kernel import Kernel, Parameter
from .changed_declaration import changed, changed_conditions
from .direct import KERNEL as FP32
from .ir.tile import BODIES

KERNEL = Kernel.of(
    name="llvm.direct_bf16",
    operation="conv2d",
    meaning="direct convolution of bf16 images, channels last, in registers: tile_w x tile_h pixels by vectors_k "
            "vectors of fp32 sums, pairs of input channels at once",
    parameters=(
        Parameter("vector", (4, 8, 16), "output channels in a vector"),
        *FP32.parameters[1:4],
        Parameter("body", BODIES, "the innermost loop's body: a filter row, a filter, or 1-8 pairs of channels of one "
                                  "tap"),
        *FP32.parameters[5:],
    ),
    derived=changed(
        FP32, panel_bytes="c_per_group * r * s * lanes_k * 2",
        input_bytes="chunk_tiles * tile_w * tile_h * stride_h * stride_w * c_per_group * 2",
        **dict(conv2d_lines("lanes_k", f"(h * w if borders == 'peel' else {PADDED})", element=2))),
    solves=(
        ("dtype == 'bf16'", "it computes in bf16 only"),
        ("bf16_dots == 1", "the device has no dot products of bf16 numbers"),
        ("direction == 'forward'", "it computes the forward direction only"),
        ("layout == 'NHWC'", "pairs of channels must be neighbours in memory, so channels must be last"),
        ("c_per_group % 2 == 0", "the input channels of a group must be even: an instruction multiplies pairs of them"),
        ("k_per_group >= 4", "it needs at least 4 output channels in a group"),
    ),
    constraints=changed_conditions(FP32, {
        "c_per_group % channels_unrolled == 0": (
            "c_per_group % (2 * channels_unrolled) == 0", "unrolled pairs must divide the input channels")}),
    default={"vector": 16, "vectors_k": 2, "tile_w": 7, "tile_h": 1, "body": "c2", "borders": "peel", "chunk": 0},
    implementation="seqtune.kernels.llvm.direct:IMPLEMENTATION",
)
