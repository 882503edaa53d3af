"""Kernel families in OpenCL C, one per file."""
