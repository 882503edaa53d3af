"""Generators of LLVM IR for attention."""
