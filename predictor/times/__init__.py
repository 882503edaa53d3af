"""Models learned from measured times."""
