"""Libraries: kernels that belong together, ours or somebody else's, from this package, another one or a file."""
