"""Dispatching: what `seqtune.api.dispatch` does, from shapes to a few kernels and a rule, and its results."""
