"""Kernel families in OpenCL C: one file a family."""
