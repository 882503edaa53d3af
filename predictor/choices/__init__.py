"""What a checkpoint that has learned another tuner's choices has beside its translator."""
