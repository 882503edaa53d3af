"""Predictors written as C99: one file with the weights, the network, the search spaces and the beam search."""
