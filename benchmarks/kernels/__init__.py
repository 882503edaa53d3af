"""Benchmarks of the tuned kernels, compared with other libraries."""
