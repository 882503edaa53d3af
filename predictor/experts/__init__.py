"""Experts: what has an opinion on the speed of configurations, and the plain mean of their opinions."""
