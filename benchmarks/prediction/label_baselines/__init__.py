"""Baselines of label models: methods that predict another tuner's choices without a transformer."""
