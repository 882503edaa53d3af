"""Boosted trees: fitted cost models, their compact form and the ranker of a beam."""
