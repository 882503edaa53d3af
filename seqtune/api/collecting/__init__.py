"""Collecting: what `seqtune.collect` does, so that a machine's measurements can be trained from, and its results.

This module imports nothing, because the command line's help reads it.
"""

TRIALS = 96  # random configurations of a problem
