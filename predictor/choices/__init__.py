"""Learned choices: the parts of a checkpoint, beside its translator, that come from another tuner's choices."""
