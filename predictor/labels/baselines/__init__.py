"""Baselines of label models: what another tuner's choices can be told by without a transformer."""
