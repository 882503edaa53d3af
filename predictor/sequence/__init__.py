"""Sentences for every model: vocabulary, constrained beam search, numeric codes."""
