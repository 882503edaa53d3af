"""llvm.depthwise_bf16: llvm.depthwise with channels last in bf16. Sums, bias, filter and epilogue are in fp32."""

from __future__ import annotations

from ..kernel import Kernel
from .changed_declaration import changed, changed_conditions
from .depthwise import KERNEL as FP32

KERNEL = Kernel.of(
    name="llvm.depthwise_bf16",
    operation="conv2d",
    meaning="depthwise convolution of bf16 images, channels last, in registers, with fp32 sums",
    parameters=FP32.parameters,
    derived=changed(FP32, rows_bytes="seen_h * w * (min(chunk, c_blocks) * vector if chunk > 0 else c) * 2"),
    solves=(
        ("dtype == 'bf16'", "it computes in bf16 only"),
        ("bf16_dots == 1", "the device has no instruction that rounds to bf16"),
        ("direction == 'forward'", "it computes the forward direction only"),
        ("c_per_group == 1 and k_per_group == 1", "every channel must be a group of its own"),
        ("layout == 'NHWC' and c >= 4", "it needs channels last, and at least 4 of them"),
    ),
    constraints=changed_conditions(FP32, {}),
    default={"vector": 16, "tile_w": 4, "tile_h": 2, "chunk": 0},
    implementation="seqtune.kernels.llvm.depthwise:IMPLEMENTATION",
)
