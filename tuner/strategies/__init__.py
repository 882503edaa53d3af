"""Search strategies: they propose configurations and learn from the results."""
