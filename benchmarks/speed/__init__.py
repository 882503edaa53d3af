"""Benchmarks of seqtune itself: the time of predictions and decodes."""
