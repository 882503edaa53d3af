"""Programs that produce the shipped data set and the README's tables and figures. Run them as `python -m benchmarks.X`."""
