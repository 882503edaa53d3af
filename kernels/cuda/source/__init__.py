"""CUDA C++ text that the kernel families share."""
