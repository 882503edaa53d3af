"""Libraries: sets of kernels from this package, from other packages or from files."""
