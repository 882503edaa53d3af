"""The library `opencl`: kernels in OpenCL C."""

from __future__ import annotations

from ..libraries.library import Library

# A new kernel family is one new file and one line here, below its operation.
KERNELS: dict[str, dict[str, str]] = {
    "conv2d": {
        "opencl.direct": "seqtune.kernels.opencl.direct:KERNEL",
        "opencl.implicit_gemm": "seqtune.kernels.opencl.implicit_gemm:KERNEL",
    },
    "gemm": {
        "opencl.gemm": "seqtune.kernels.opencl.gemm:KERNEL",
    },
}
LIBRARY = Library.by_operation("opencl", KERNELS, meaning="kernels in OpenCL C", backends=("opencl",))
