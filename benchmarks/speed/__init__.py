"""Benchmarks of seqtune itself: the time of a prediction."""
