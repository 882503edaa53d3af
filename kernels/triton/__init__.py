"""Kernel families written in Triton."""
