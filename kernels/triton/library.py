"""The library `triton`: kernels in Triton's language."""

from __future__ import annotations

from ..libraries.library import Library

# A new kernel family is one new file and one line here.
KERNELS: dict[str, str] = {
    "triton.gemm": "seqtune.kernels.triton.gemm:KERNEL",
    "triton.fused_moe": "seqtune.kernels.triton.fused_moe:KERNEL",
    "triton.scaled_gemm": "seqtune.kernels.triton.scaled_gemm:KERNEL",
}
LIBRARY = Library("triton", KERNELS, meaning="kernels in Triton's language", backends=("triton",))
