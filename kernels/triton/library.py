"""The library `triton`: kernels in Triton's language."""

from __future__ import annotations

from ..libraries.library import Library

# A new kernel family is one new file and one line here, below its operation.
KERNELS: dict[str, dict[str, str]] = {
    "gemm": {
        "triton.gemm": "seqtune.kernels.triton.gemm:KERNEL",
    },
    "fused_moe": {
        "triton.fused_moe": "seqtune.kernels.triton.fused_moe:KERNEL",
    },
    "scaled_gemm": {
        "triton.scaled_gemm": "seqtune.kernels.triton.scaled_gemm:KERNEL",
    },
}
LIBRARY = Library.by_operation("triton", KERNELS, meaning="kernels in Triton's language", backends=("triton",))
