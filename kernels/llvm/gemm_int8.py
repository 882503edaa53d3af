"""llvm.gemm_int8: llvm.gemm with operands in int8 and 32-bit sums, which are the result and exact.

Where the CPU has it (AVX512-VNNI, AVX-VNNI), one instruction multiplies words of four numbers along k. Its first factor
is unsigned, so 128 is added to the numbers of A; packed B holds numbers that correct the sums.
"""

from __future__ import annotations

from ..cache_lines import gemm_lines
from ..kernel import Kernel, Parameter
from .changed_declaration import changed, changed_conditions
from .gemm import KERNEL as FP32

KERNEL = Kernel.of(
    name="llvm.gemm_int8",
    operation="gemm",
    meaning="matrix product of int8 numbers in registers: tile_m rows by vectors_n vectors of 32-bit sums, B packed in "
            "panels of words of four along k",
    parameters=(
        Parameter("vector", (4, 8, 16), "columns of C in a vector"),
        *FP32.parameters[1:3],
        Parameter("unroll_k", (1, 2, 4, 8), "words along the reduction in the innermost loop's body"),
        FP32.by_name["chunk"],
    ),
    derived=changed(
        FP32, panel_bytes="k * lanes_n", **dict(gemm_lines("lanes_n", 1)),
        chunk_bytes="(min(chunk, tiles) if chunk > 0 else ceil_div(tiles, threads)) * tile_m * k"),
    solves=(
        ("dtype == 'int8'", "it computes in int8 only"),
        ("bias == 'no' and activation == 'none'", "sums of 32 bits are stored as they are, without an epilogue"),
        ("trans_a == 'no'", "words along k must be neighbours in memory, so A must not be transposed"),
        ("k % 4 == 0", "4 must divide k: an instruction multiplies words of four along k"),
        ("k < 131072", "larger sums of products do not fit into 32 bits"),
        ("n >= 4", "it needs at least 4 columns"),
    ),
    constraints=changed_conditions(FP32, {
        "k % unroll_k == 0": ("k % (4 * unroll_k) == 0", "unrolled words must divide the reduction")}),
    default={"vector": 16, "vectors_n": 2, "tile_m": 8, "unroll_k": 2, "chunk": 4},
    implementation="seqtune.kernels.llvm.gemm:IMPLEMENTATION",
)
