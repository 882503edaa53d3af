"""cuda.shared_gemm: the fp32 matrix product through shared memory, for NVIDIA GPUs."""

from __future__ import annotations

import numpy as np

from ..devices.device import Device
from ..kernel import Configuration, Kernel
from ..launches.implementation import Array, KernelSource, Launch
from ..problem import Problem
from .source.prelude import program
from .source.shared_block import SharedBlock, launch
from .source.shared_parameters import CONSTRAINTS, DEFAULT, DERIVED, PARAMETERS, numbers
from .source.shared_text import text, width


class SharedGemm:
    """Runs cuda.shared_gemm; each source works for all shapes of one `trans_a`, divisibility by 4 and epilogue."""

    includes = "the product and its epilogue, slices added; B packed into panels before, once"

    def block(self, problem: Problem, configuration: Configuration) -> SharedBlock:
        """The numbers that determine the text."""
        m, n, k = problem.size("m"), problem.size("n"), problem.size("k")
        transposed = problem["trans_a"] == "yes"
        return numbers(configuration, contiguous=m if transposed else k, channels=k, rows_first=transposed,
                       columns_last=True, stored=n, bias=problem["bias"] == "yes",
                       relu=problem["activation"] == "relu")

    def source(self, problem: Problem, device: Device, configuration: Configuration) -> KernelSource:
        """The text of the block."""
        block = self.block(problem, configuration)
        return program(device, width(block), text(block), copies=True)

    def launch(self, problem: Problem, device: Device, configuration: Configuration) -> Launch:
        """The launch over blocks of C and slices of the sum."""
        m, n, k = problem.size("m"), problem.size("n"), problem.size("k")
        block, transposed = self.block(problem, configuration), problem["trans_a"] == "yes"
        return launch(block, 1, configuration.number("split_k"), {
            "rows": m, "outputs": n, "channels": k, "tiles": -(-k // block.block_k),
            "x_row": 1 if transposed else k, "x_channel": m if transposed else 1,
            "y_row": n, "y_total": m * n, "bias_step": 1, "bias_count": n})

    def packing(self, problem: Problem, configuration: Configuration) -> tuple[int, int, bool]:
        """The values (columns of a panel, rows of a tile, whether B is transposed)."""
        return configuration.number("block_n"), configuration.number("block_k"), problem["trans_b"] == "yes"

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
        """Copy B into the order [panel][k][column], with zeros up to whole panels and tiles."""
        block_n, block_k, transposed = self.packing(problem, configuration)
        b = weights.T if transposed else weights
        k, n = b.shape
        padded = np.pad(b, ((0, -k % block_k), (0, -n % block_n)))
        return np.ascontiguousarray(padded.reshape(padded.shape[0], -1, block_n).transpose(1, 0, 2))


IMPLEMENTATION = SharedGemm()

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
    solves=(("dtype == 'fp32'", "only fp32"),),
    constraints=CONSTRAINTS,
    default=DEFAULT,
    implementation="seqtune.kernels.cuda.shared_gemm:IMPLEMENTATION",
)
