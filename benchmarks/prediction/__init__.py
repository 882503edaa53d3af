"""Benchmarks of the quality of predictions."""
