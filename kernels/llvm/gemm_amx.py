"""llvm.gemm_amx: products of bf16 in the tile registers of AMX: 16 rows by 16 columns of fp32 sums in a register.

Its operands, packed B and epilogue are those of llvm.gemm_bf16.
"""

from __future__ import annotations

from ..devices.device import Device
from ..kernel import Configuration, Kernel, Parameter
from ..launches.implementation import KernelSource
from ..problem import Problem
from .changed_declaration import changed
from .fusion import NONE, Fusion
from .gemm import LLVMGemm
from .gemm_bf16 import KERNEL as BF16
from .ir.amx_tile import AmxTile

_BLOCKS = "ceil_div(tile_m, 16)"  # registers along the rows

KERNEL = Kernel.of(
    name="llvm.gemm_amx",
    operation="gemm",
    meaning="matrix product of bf16 numbers in tile registers: tile_m rows by vectors_n registers of 16 columns, B "
            "packed in panels of pairs along k",
    parameters=(
        Parameter("vector", (16,), "columns of C in a register"),
        Parameter("vectors_n", (1, 2, 3), "registers along the columns of a tile"),
        Parameter("tile_m", (1, 2, 4, 8, 12, 16, 24, 28, 32, 48), "rows in a tile; a register has up to 16"),
        Parameter("unroll_k", (1, 2, 4), "instructions along the reduction in the innermost loop's body"),
        BF16.by_name["chunk"],
    ),
    derived=changed(
        BF16, accumulators=f"{_BLOCKS} * vectors_n", loads_per_fma=f"({_BLOCKS} + vectors_n) / accumulators"),
    solves=(
        ("dtype == 'bf16'", "it computes in bf16 only"),
        ("amx_bf16 == 1", "the device has no products of bf16 matrices in tile registers"),
        ("trans_a == 'no'", "pairs along k must be neighbours in memory, so A must not be transposed"),
        ("k % 32 == 0", "32 must divide k: an instruction multiplies 32 numbers along k"),
        ("n >= 16", "it needs at least 16 columns"),
    ),
    constraints=(
        ("vector * vectors_n <= n", "a tile must not have more columns than C"),
        ("tile_m <= m", "a tile must not have more rows than C"),
        (f"{_BLOCKS} * vectors_n + vectors_n + 1 <= 8", "sums, B and 16 rows of A must fit the eight tile registers"),
        ("k % (32 * unroll_k) == 0", "unrolled instructions must divide the reduction"),
        *((condition.expression.text, condition.reason) for condition in BF16.constraints[-2:]),  # of chunks
    ),
    default={"vector": 16, "vectors_n": 2, "tile_m": 32, "unroll_k": 1, "chunk": 4},
    implementation="seqtune.kernels.llvm.gemm_amx:IMPLEMENTATION",
)


class LLVMGemmAmx(LLVMGemm):
    """Runs llvm.gemm_amx. It prefetches no panels."""

    def source(self, problem: Problem, device: Device, configuration: Configuration,
               fusion: Fusion = NONE) -> KernelSource:
        """The text; it depends on tile, step between rows of A, elements and epilogue."""
        elements = fusion.elements(problem, device)
        return AmxTile(
            vectors=configuration.number("vectors_n"), rows=configuration.number("tile_m"),
            steps=configuration.number("unroll_k"), pitch=fusion.pitches(problem.size("k"), problem.size("n")).x,
            bias=problem["bias"] == "yes", formula=fusion.formula(problem), y=elements.y,
            other=elements.other).source()


IMPLEMENTATION = LLVMGemmAmx()
