"""Whole networks beside what else runs them on a CPU: `python -m benchmarks networks`."""
