"""Generators of LLVM IR that the families share."""
