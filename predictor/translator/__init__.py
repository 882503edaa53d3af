"""Neural networks and their dimensions."""
