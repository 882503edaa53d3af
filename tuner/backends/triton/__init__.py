"""The triton backend: Triton kernels on the GPUs that PyTorch sees."""
