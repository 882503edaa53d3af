"""Text of kernels in the part of C that OpenCL C and CUDA C++ share, and what both backends need to launch it."""
