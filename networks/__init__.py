"""Whole networks on CPUs: a PyTorch model becomes programs of tuned kernels and of generated steps between them."""
