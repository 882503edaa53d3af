"""Kernel families of the cuda backend."""
