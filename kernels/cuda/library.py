"""The library `cuda`: kernels in CUDA C."""

from __future__ import annotations

from ..libraries.library import Library

# A new kernel family is one new file and one line here, below its operation.
KERNELS: dict[str, dict[str, str]] = {
    "gemm": {
        "cuda.shared_gemm": "seqtune.kernels.cuda.shared_gemm:KERNEL",
        "cuda.gemm": "seqtune.kernels.cuda.gemm:KERNEL",
        "cuda.tensor_gemm": "seqtune.kernels.cuda.tensor_gemm:KERNEL",
        "cuda.wgmma_gemm": "seqtune.kernels.cuda.wgmma_gemm:KERNEL",
    },
    "conv2d": {
        "cuda.shared_convolution": "seqtune.kernels.cuda.shared_convolution:KERNEL",
        "cuda.direct": "seqtune.kernels.cuda.direct:KERNEL",
        "cuda.implicit_gemm": "seqtune.kernels.cuda.implicit_gemm:KERNEL",
        "cuda.tensor_convolution": "seqtune.kernels.cuda.tensor_convolution:KERNEL",
    },
}
LIBRARY = Library.by_operation("cuda", KERNELS, meaning="kernels in CUDA C", backends=("cuda",))
