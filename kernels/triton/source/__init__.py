"""Triton kernels: modules that import Triton, and are imported only by what compiles or runs them."""
