"""The opencl backend: OpenCL C through pyopencl."""
