"""Boosted trees: cost models, their compact form, and the ranker of the beam's proposals."""
