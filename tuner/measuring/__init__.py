"""Measuring: correctness, timing, isolation and the statistics of a comparison."""
