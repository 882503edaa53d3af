"""Baselines of learned choices: methods that predict another tuner's choices without a transformer."""
