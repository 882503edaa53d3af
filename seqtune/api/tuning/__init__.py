"""Tuning: what `seqtune.tune` does, on this machine, in a replay or on a fleet, and its results."""
