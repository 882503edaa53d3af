"""Boosted trees: `Trees` are fitted to times, a `Forest` is their compact form, a `Ranker` has every kernel's."""
