"""The library `opencl`: kernels in OpenCL C."""

from __future__ import annotations

from ..libraries.library import Library

# A new kernel family is one new file and one line here.
KERNELS: dict[str, str] = {
    "opencl.direct": "seqtune.kernels.opencl.direct:KERNEL",
    "opencl.gemm": "seqtune.kernels.opencl.gemm:KERNEL",
    "opencl.implicit_gemm": "seqtune.kernels.opencl.implicit_gemm:KERNEL",
}
LIBRARY = Library("opencl", KERNELS, meaning="kernels in OpenCL C", backends=("opencl",))
