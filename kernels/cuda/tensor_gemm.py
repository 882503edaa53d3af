"""cuda.tensor_gemm: matrix product of fp16 or bf16 on tensor cores (mma.sync): tiles, slices of k, equal shares."""

from __future__ import annotations

from dataclasses import dataclass

from ..devices.device import Device
from ..kernel import Configuration, Kernel, quantities
from ..launches.call import Call
from ..launches.implementation import Array
from ..launches.indexing import UNSIGNED, offsets_fit
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

SIZES = ("m", "n", "k")
ARGUMENTS = (*SIZES, *TILE_ARGUMENTS)

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
    solves=(*SOLVES, *offsets_fit("gemm", ("A",), UNSIGNED)),
    constraints=CONSTRAINTS,
    default=DEFAULT,
    implementation="seqtune.kernels.cuda.tensor_gemm:IMPLEMENTATION",
)


class TensorGemm:
    """Runs cuda.tensor_gemm; each source works for all shapes of equal divisibility."""

    includes = "the product and its epilogue, from A as it is; B packed into tiles before, once"

    def call(self, problem: Problem, device: Device, configuration: Configuration) -> Call:
        """The tiles and, for partial sums, their addition."""
        names = quantities(KERNEL.derived, problem, device, configuration)
        source = tensor_source(tile_of(names), "tensor_gemm", INPUTS["matrix"], ARGUMENTS)
        values = {**{name: problem.size(name) for name in SIZES}, **tile_arguments(names)}
        packing = MatrixTiles(names["block_n"], names["block_k"], problem["trans_b"] == "yes")
        return tensor_call(problem, source, names, "tensor_gemm", (values[name] for name in ARGUMENTS), packing)


@dataclass(frozen=True, slots=True)
class MatrixTiles:
    """B as [tile][tile of k][column][k]."""

    columns: int  # columns of a tile
    depth: int
    transposed: bool  # B is stored as (n, k)

    def pack(self, array: Array) -> Array:
        """Pack B."""
        return panels((array if self.transposed else array.T)[None], self.columns, self.depth)


IMPLEMENTATION = TensorGemm()
