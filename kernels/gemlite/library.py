"""The library `gemlite`: its Triton kernels for products with packed weights, which it runs itself.

gemlite chooses the kernel by a rule and tunes the rest. The spaces are those of its tuner at the commit 1a6815d, under
`AUTOTUNE = max`.
"""

from __future__ import annotations

from ..libraries.library import Library

# A new kernel family is one new file and one line here.
KERNELS: dict[str, str] = {
    "gemlite.gemm": "seqtune.kernels.gemlite.gemm:KERNEL",
    "gemlite.gemm_splitk": "seqtune.kernels.gemlite.gemm_splitk:KERNEL",
    "gemlite.gemv_revsplitk": "seqtune.kernels.gemlite.gemv_revsplitk:KERNEL",
    "gemlite.gemv_splitk": "seqtune.kernels.gemlite.gemv_splitk:KERNEL",
}
LIBRARY = Library("gemlite", KERNELS, meaning="products with packed 1- to 8-bit weights, in Triton",
                  backends=("triton",), runs=False)
