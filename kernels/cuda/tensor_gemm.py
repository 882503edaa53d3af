"""cuda.tensor_gemm: matrix product of fp16 or bf16 on tensor cores (mma.sync): tiles, slices of k, equal shares."""

from __future__ import annotations

from ..devices.device import Device
from ..kernel import Configuration, Kernel, quantities
from ..launches.implementation import Array, KernelSource, Launch
from ..problem import Problem
from .source.tensor_input import MATRIX
from .source.tensor_tile import tensor_source
from .tensor_space import (
    CONSTRAINTS,
    DEFAULT,
    DERIVED,
    PARAMETERS,
    SOLVES,
    TILE_ARGUMENTS,
    panels,
    tensor_launch,
    tile_arguments,
    tile_of,
)

SIZES = ("m", "n", "k")
ARGUMENTS = (*SIZES, *TILE_ARGUMENTS)


class TensorGemm:
    """Runs cuda.tensor_gemm; each source works for all shapes of equal divisibility."""

    includes = "the product and its epilogue, from A as it is; B packed into tiles before, once"

    def source(self, problem: Problem, device: Device, configuration: Configuration) -> KernelSource:
        """The text of the tile."""
        tile = tile_of(quantities(KERNEL.derived, problem, device, configuration))
        return tensor_source(tile, "tensor_gemm", MATRIX, ARGUMENTS)

    def launch(self, problem: Problem, device: Device, configuration: Configuration) -> Launch:
        """The launch of the tiles and, for partial sums, of their addition."""
        names = quantities(KERNEL.derived, problem, device, configuration)
        values = {**{name: problem.size(name) for name in SIZES}, **tile_arguments(names)}
        return tensor_launch(names, "tensor_gemm", tuple(values[name] for name in ARGUMENTS))

    def packing(self, problem: Problem, configuration: Configuration) -> tuple[int, int, bool]:
        """The values (columns and depth of a tile, whether B is transposed)."""
        return configuration.number("block_n"), configuration.number("block_k"), problem["trans_b"] == "yes"

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
        """Copy B into [tile][tile of k][column][k]."""
        block_n, block_k, transposed = self.packing(problem, configuration)
        return panels((weights if transposed else weights.T)[None], block_n, block_k)


IMPLEMENTATION = TensorGemm()

KERNEL = Kernel.of(
    name="cuda.tensor_gemm",
    operation="gemm",
    meaning="fp16 and bf16 matrix product on tensor cores, with copies ahead of the arithmetic",
    parameters=PARAMETERS,
    derived=(
        ("gemm_m", "m"),
        ("gemm_n", "n"),
        ("gemm_k", "k"),
        ("products", "1"),
        ("a_by_k", "1 if trans_a == 'yes' else 0"),
        ("y_by_column", "0"),
        ("load_bytes", "2 * gcd(m if trans_a == 'yes' else k, 8)"),
        ("store_bytes", "min(2 * gcd(n, 8), 16 if epilogue == 'shared' else 4)"),
        ("copy_registers", "2"),
        *DERIVED,
    ),
    solves=SOLVES,
    constraints=CONSTRAINTS,
    default=DEFAULT,
    implementation="seqtune.kernels.cuda.tensor_gemm:IMPLEMENTATION",
)
