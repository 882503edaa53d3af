"""The cuda backend: NVIDIA GPUs through pycuda, compiled by NVRTC."""
