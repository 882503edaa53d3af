"""Calls: kernels that a library declares by source and arguments, or by a command, as frozen data."""
