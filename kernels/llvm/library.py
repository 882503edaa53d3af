"""The library `llvm`: kernels for CPUs, in LLVM IR."""

from __future__ import annotations

from ..libraries.library import Library

# A new kernel family is one new file and one line here, below its operation.
KERNELS: dict[str, dict[str, str]] = {
    "conv2d": {
        "llvm.direct": "seqtune.kernels.llvm.direct:KERNEL",
        "llvm.winograd": "seqtune.kernels.llvm.winograd:KERNEL",
        "llvm.depthwise": "seqtune.kernels.llvm.depthwise:KERNEL",
        "llvm.grouped": "seqtune.kernels.llvm.grouped:KERNEL",
        "llvm.direct_bf16": "seqtune.kernels.llvm.direct_bf16:KERNEL",
        "llvm.depthwise_bf16": "seqtune.kernels.llvm.depthwise_bf16:KERNEL",
    },
    "gemm": {
        "llvm.gemm": "seqtune.kernels.llvm.gemm:KERNEL",
        "llvm.gemm_bf16": "seqtune.kernels.llvm.gemm_bf16:KERNEL",
        "llvm.gemm_amx": "seqtune.kernels.llvm.gemm_amx:KERNEL",
        "llvm.gemm_int8": "seqtune.kernels.llvm.gemm_int8:KERNEL",
    },
    "attention": {
        "llvm.attention": "seqtune.kernels.llvm.attention:KERNEL",
        "llvm.attention_bf16": "seqtune.kernels.llvm.attention_bf16:KERNEL",
        "llvm.attention_decode": "seqtune.kernels.llvm.attention_decode:KERNEL",
    },
}
LIBRARY = Library.by_operation("llvm", KERNELS, meaning="kernels for CPUs, in LLVM IR", backends=("llvm",))
