"""Programs behind the shipped data set and the tables and figures of the README: `python -m benchmarks.X`."""
