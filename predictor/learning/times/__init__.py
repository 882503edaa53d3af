"""Learning from measured times."""
