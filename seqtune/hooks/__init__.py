"""Where other software asks."""
