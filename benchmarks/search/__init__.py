"""Benchmarks of the search strategies."""
