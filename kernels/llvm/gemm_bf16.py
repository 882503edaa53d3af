"""llvm.gemm_bf16: llvm.gemm with operands in bf16, whose instruction adds two products of bf16 numbers to an fp32 sum.

Bias, sums and epilogue are in fp32; B is packed in pairs along k.
"""

from __future__ import annotations

from ..cache_lines import gemm_lines
from ..kernel import Kernel, Parameter
from .changed_declaration import changed, changed_conditions
from .gemm import KERNEL as FP32

KERNEL = Kernel.of(
    name="llvm.gemm_bf16",
    operation="gemm",
    meaning="matrix product of bf16 numbers in registers: tile_m rows by vectors_n vectors of fp32 sums, B packed in "
            "panels of pairs along k",
    parameters=(
        Parameter("vector", (4, 8, 16), "columns of C in a vector"),
        *FP32.parameters[1:3],
        Parameter("unroll_k", (1, 2, 4, 8), "pairs along the reduction in the innermost loop's body"),
        FP32.by_name["chunk"],
    ),
    derived=changed(
        FP32, panel_bytes="k * lanes_n * 2", **dict(gemm_lines("lanes_n", 2)),
        chunk_bytes="(min(chunk, tiles) if chunk > 0 else ceil_div(tiles, threads)) * tile_m * k * 2"),
    solves=(
        ("dtype == 'bf16'", "it computes in bf16 only"),
        ("bf16_dots == 1", "the device has no dot products of bf16 numbers"),
        ("trans_a == 'no'", "pairs along k must be neighbours in memory, so A must not be transposed"),
        ("k % 2 == 0", "k must be even: an instruction multiplies pairs along k"),
        ("n >= 4", "it needs at least 4 columns"),
    ),
    constraints=changed_conditions(FP32, {
        "k % unroll_k == 0": ("k % (2 * unroll_k) == 0", "unrolled pairs must divide the reduction")}),
    default={"vector": 16, "vectors_n": 2, "tile_m": 8, "unroll_k": 2, "chunk": 4},
    implementation="seqtune.kernels.llvm.gemm:IMPLEMENTATION",
)
