"""Whole networks, compared with other ways to run them on a CPU: `python -m benchmarks networks`."""
