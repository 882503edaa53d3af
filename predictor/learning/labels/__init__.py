"""Learning from the labels of MIOpen's tuner, as users request it."""
