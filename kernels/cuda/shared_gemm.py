"""cuda.shared_gemm: the fp32 matrix product through shared memory, for NVIDIA GPUs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..c_text.prelude import program
from ..devices.device import Device
from ..kernel import Configuration, Kernel
from ..launches.call import Call
from ..launches.implementation import Array
from ..launches.indexing import offsets_fit
from ..problem import Problem
from .source.shared_block import CONSTRAINTS, DEFAULT, DERIVED, PARAMETERS, SharedBlock, numbers, shared_call
from .source.shared_text import text, width

KERNEL = Kernel.of(
    name="cuda.shared_gemm",
    operation="gemm",
    meaning="matrix product through shared memory, with several tiles in flight and slices of the sum",
    parameters=PARAMETERS,
    derived=(
        ("gemm_m", "m"),
        ("gemm_n", "n"),
        ("gemm_k", "k"),
        ("products", "1"),
        ("tiles", "ceil_div(k, block_k)"),
        ("rows_first", "1 if trans_a == 'yes' else 0"),
        ("contiguous", "m if trans_a == 'yes' else k"),
        ("row_registers", "1"),
        *DERIVED,
    ),
    solves=(("dtype == 'fp32'", "only fp32"), *offsets_fit("gemm")),
    constraints=CONSTRAINTS,
    default=DEFAULT,
    implementation="seqtune.kernels.cuda.shared_gemm:IMPLEMENTATION",
)


class SharedGemm:
    """Runs cuda.shared_gemm; each source works for all shapes of one `trans_a`, divisibility by 4 and epilogue."""

    includes = "the product and its epilogue, slices added; B packed into panels before, once"

    def call(self, problem: Problem, device: Device, configuration: Configuration) -> Call:
        """The blocks of C and slices of the sum."""
        m, n, k = problem.size("m"), problem.size("n"), problem.size("k")
        block, transposed = _block(problem, configuration), problem["trans_a"] == "yes"
        source = program(device, width(block), text(block), copies=True)
        packing = PaddedPanels(block.block_n, block.block_k, problem["trans_b"] == "yes")
        return shared_call(problem, source, block, {
            "rows": m, "outputs": n, "channels": k, "tiles": -(-k // block.block_k),
            "x_row": 1 if transposed else k, "x_channel": m if transposed else 1,
            "y_row": n, "y_total": m * n, "bias_step": 1, "bias_count": n}, packing,
            groups=1, slices=configuration.number("split_k"))


def _block(problem: Problem, configuration: Configuration) -> SharedBlock:
    """The numbers that determine the text."""
    m, n, k = problem.size("m"), problem.size("n"), problem.size("k")
    transposed = problem["trans_a"] == "yes"
    return numbers(configuration, contiguous=m if transposed else k, channels=k, rows_first=transposed,
                   columns_last=True, stored=n, bias=problem["bias"] == "yes",
                   relu=problem["activation"] == "relu")


@dataclass(frozen=True, slots=True)
class PaddedPanels:
    """B as [panel][k][column], with zeros up to whole panels and tiles."""

    columns: int  # columns of a panel
    depth: int  # k of a tile
    transposed: bool  # B is stored as (n, k)

    def pack(self, array: Array) -> Array:
        """Pack B."""
        b = array.T if self.transposed else array
        k, n = b.shape
        padded = np.pad(b, ((0, -k % self.depth), (0, -n % self.columns)))
        return np.ascontiguousarray(padded.reshape(padded.shape[0], -1, self.columns).transpose(1, 0, 2))


IMPLEMENTATION = SharedGemm()
