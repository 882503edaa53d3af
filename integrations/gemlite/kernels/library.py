"""The library `gemlite`: its Triton kernels for products with packed weights, which it runs itself.

gemlite chooses the kernel by a rule and tunes the rest. The spaces are those of its tuner at the commit 1a6815d, under
`AUTOTUNE = max`.
"""

from __future__ import annotations

from seqtune.kernels.libraries.library import Library

# A new kernel family is one new file and one line here.
KERNELS: dict[str, str] = {
    "gemlite.gemm": "seqtune.integrations.gemlite.kernels.gemm:KERNEL",
    "gemlite.gemm_splitk": "seqtune.integrations.gemlite.kernels.gemm_splitk:KERNEL",
    "gemlite.gemv_revsplitk": "seqtune.integrations.gemlite.kernels.gemv_revsplitk:KERNEL",
    "gemlite.gemv_splitk": "seqtune.integrations.gemlite.kernels.gemv_splitk:KERNEL",
}
LIBRARY = Library("gemlite", KERNELS, meaning="products with packed 1- to 8-bit weights, in Triton",
                  backends=("triton",), runs=False)
