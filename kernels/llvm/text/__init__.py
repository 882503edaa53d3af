"""Text of LLVM IR that kernels and the steps of networks share: numbers, vectors and formulas on them."""
