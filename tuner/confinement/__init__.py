"""Confinement: what a worker that runs a stranger's kernels natively may still do on this machine (Linux)."""
