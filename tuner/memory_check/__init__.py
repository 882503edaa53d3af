"""Memory check: a library's OpenCL kernels on Oclgrind, a simulator that finds races and stray accesses."""
