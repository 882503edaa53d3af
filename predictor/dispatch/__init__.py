"""Dispatch: a few kernels for all shapes of an operation, a rule that chooses among them, and its proof."""
