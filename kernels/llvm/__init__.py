"""Kernel families in LLVM IR for the CPU, one per file."""
