"""seqtune predicts the tuning parameters of compute kernels, and proves them by measuring."""

__version__ = "0.1.0"
