"""A model as a network of nodes that kernels and generated steps compute."""
