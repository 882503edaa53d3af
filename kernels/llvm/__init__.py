"""Kernel families in LLVM IR for the CPU: one file a family."""
