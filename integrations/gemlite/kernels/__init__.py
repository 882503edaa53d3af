"""Kernels of gemlite: products with packed weights, in Triton."""
